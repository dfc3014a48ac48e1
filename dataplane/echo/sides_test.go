package echo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// caller makes calls to the echo service, for one goroutine.
type caller interface {
	null(ctx context.Context) error
	// read calls READ of the size that the caller was made for and leaves the
	// data in data.
	read(ctx context.Context) error
	data() []byte
	// write calls WRITE of that size and leaves the results in wrote.
	write(ctx context.Context) error
	wrote() []byte
	free()
}

// side is one of the two stacks, connected.
type side interface {
	// caller is for READs and WRITEs of size bytes.
	caller(tb testing.TB, size int) caller
}

type tcpSide struct{ client *rpctcp.Client }

// startTCP serves echo over TCP until the test ends.
func startTCP(tb testing.TB) side {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := rpctcp.NewServer(rpctcp.Config{Handler: echo.New()})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	tb.Cleanup(func() {
		if err := errors.Join(server.Close(), <-served); err != nil {
			tb.Error(err)
		}
	})
	client, err := rpctcp.Dial(tb.Context(), l.Addr().String(), rpctcp.ClientConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	return tcpSide{client}
}

type tcpCaller struct {
	client  *rpctcp.Client
	args    []byte
	opaque  []byte // arguments of WRITE
	into    []byte
	results []byte
}

func (s tcpSide) caller(_ testing.TB, size int) caller {
	return &tcpCaller{
		client: s.client,
		args:   xdr.AppendUint32(nil, uint32(size)),
		opaque: xdr.AppendOpaque(nil, filled(size)),
		into:   make([]byte, oncrpc.AcceptedReplySize+xdr.OpaqueSize(size)),
	}
}

func (c *tcpCaller) call(ctx context.Context, proc uint32, args []byte) (err error) {
	c.results, err = c.client.Call(ctx, echo.Program, echo.Version, proc, args, c.into)
	return err
}

func (c *tcpCaller) null(ctx context.Context) error { return c.call(ctx, echo.ProcNull, nil) }
func (c *tcpCaller) read(ctx context.Context) error { return c.call(ctx, echo.ProcRead, c.args) }

func (c *tcpCaller) data() []byte {
	d := xdr.NewDecoder(c.results)
	return d.Opaque(echo.MaxPayload)
}

func (c *tcpCaller) write(ctx context.Context) error { return c.call(ctx, echo.ProcWrite, c.opaque) }
func (c *tcpCaller) wrote() []byte                   { return c.results }

func (c *tcpCaller) free() {}

type rdmaSide struct{ client *rpcrdma.Client }

// startRDMA serves echo over RPC-over-RDMA on soft-iWARP until the test ends.
func startRDMA(tb testing.TB) side {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	l, err := rpcrdma.Listen(ctx, provider(tb), "127.0.0.1:0", rpcrdma.ListenConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	accepted := make(chan *rpcrdma.Conn, 1)
	go func() {
		conn, err := accept(ctx, l)
		if err != nil {
			tb.Error(err)
		}
		accepted <- conn
	}()
	client, err := rpcrdma.Dial(tb.Context(), provider(tb), l.Addr().String(), rpcrdma.DialConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Error(err)
		}
		if conn := <-accepted; conn != nil {
			<-conn.Done()
		}
	})
	return rdmaSide{client}
}

func accept(ctx context.Context, l *rpcrdma.Listener) (*rpcrdma.Conn, error) {
	request, err := l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return request.Accept(ctx, rpcrdma.ConnConfig{Handler: echo.New()})
}

// provider gives a soft-iWARP provider of its own, as two processes have.
func provider(tb testing.TB) rdmacm.Provider {
	tb.Helper()
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return refereetest.Around(tb, p)
}

type rdmaCaller struct {
	client     *rpcrdma.Client
	nulls      rpcrdma.Call
	reads      rpcrdma.Call
	writes     rpcrdma.Call
	buf        oncrpc.Buffer
	sizeOfRead int
}

func (s rdmaSide) caller(tb testing.TB, size int) caller {
	tb.Helper()
	buf, err := s.client.Alloc(tb.Context(), max(size, 1))
	if err != nil {
		tb.Fatal(err)
	}
	call := rpcrdma.Call{Program: echo.Program, Version: echo.Version}
	c := &rdmaCaller{client: s.client, nulls: call, reads: call, writes: call, buf: buf, sizeOfRead: size}
	c.nulls.Procedure = echo.ProcNull
	c.reads.Procedure = echo.ProcRead
	c.reads.Args = xdr.AppendUint32(nil, uint32(size))
	c.reads.MaxReply = xdr.Unit
	c.reads.Results = []rpcrdma.Result{{Buf: buf, Max: size}}
	c.writes.Procedure = echo.ProcWrite
	c.writes.Args = c.reads.Args
	c.writes.Items = []oncrpc.ReplyItem{{Pos: xdr.Unit, Buf: buf, Len: size}}
	c.writes.MaxReply = 2 * xdr.Unit
	copy(buf.Bytes(), filled(size))
	return c
}

func (c *rdmaCaller) null(ctx context.Context) error { return c.client.Call(ctx, &c.nulls) }
func (c *rdmaCaller) read(ctx context.Context) error { return c.client.Call(ctx, &c.reads) }

func (c *rdmaCaller) write(ctx context.Context) error { return c.client.Call(ctx, &c.writes) }
func (c *rdmaCaller) wrote() []byte                   { return c.writes.Reply }

func (c *rdmaCaller) data() []byte {
	if n := c.reads.Results[0].Apart; n > 0 {
		return c.buf.Bytes()[:min(n, c.sizeOfRead)]
	}
	d := xdr.NewDecoder(c.reads.Reply)
	return d.Opaque(echo.MaxPayload)
}

func (c *rdmaCaller) free() { c.buf.Release() }

// filled is the data of calls of size bytes.
func filled(size int) []byte {
	b := make([]byte, size)
	echo.Fill(b)
	return b
}

// sides are the two stacks by name.
var sides = map[string]func(testing.TB) side{"rdma": startRDMA, "tcp": startTCP}

// TestSidesAgree checks what the benchmarks do not: that both stacks bring the
// bytes that they are timed for.
func TestSidesAgree(t *testing.T) {
	for name, start := range sides {
		for _, size := range []int{0, 1, 1000, 4096, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				c := start(t).caller(t, size)
				defer c.free()
				if err := c.null(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := c.read(t.Context()); err != nil {
					t.Fatal(err)
				}
				want := filled(size)
				if !bytes.Equal(c.data(), want) {
					t.Errorf("%d bytes, not the %d wanted", len(c.data()), size)
				}
				if err := c.write(t.Context()); err != nil {
					t.Fatal(err)
				}
				sums := xdr.AppendUint32(nil, uint32(size))
				sums = xdr.AppendUint32(sums, crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli)))
				if !bytes.Equal(c.wrote(), sums) {
					t.Errorf("WRITE answered %x, want %x", c.wrote(), sums)
				}
			})
		}
	}
}
