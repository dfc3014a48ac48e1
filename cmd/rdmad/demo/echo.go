package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// defaultChunk is the default size, in bytes, from which an item moves by RDMA.
const defaultChunk = 4096

// session is a connection and its provider.
type session struct {
	provider rdmacm.Provider
	*rpcrdma.Client
}

// dial connects to one of rdmad's listeners. For results of at least minChunk bytes the client
// offers a write chunk and leaves the choice to rdmad. It expects smaller results inline.
func (d *demo) dial(ctx context.Context, listener string, minChunk uint32) (*session, error) {
	s := rpcrdma.DefaultSettings()
	s.DDPMinChunk = minChunk
	return d.dialWith(ctx, listener, &s)
}

func (d *demo) dialWith(ctx context.Context, listener string, s *rpcrdma.Settings) (*session, error) {
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		return nil, err
	}
	c, err := rpcrdma.Dial(ctx, p, d.daemon.Address("listener "+listener), rpcrdma.DialConfig{Settings: s})
	if err != nil {
		p.Close()
		return nil, err
	}
	return &session{p, c}, nil
}

func (s *session) close() {
	s.Close()
	s.provider.Close()
}

// echo calls each procedure of the echo service and checks every byte.
func (d *demo) echo(ctx context.Context) error {
	d.title("Call the echo service over RPC-over-RDMA")
	s, err := d.dial(ctx, "echo", defaultChunk)
	if err != nil {
		return err
	}
	defer s.close()
	for _, c := range []struct {
		what  string
		calls int
		bytes int
		call  func(context.Context) error
	}{
		{"NULL", 2000, 0, s.null},
		{"ECHO of 1 KiB, inline", 1000, 1 << 10, func(ctx context.Context) error { return s.echo(ctx, 1<<10) }},
		{"READ of 1 MiB, by RDMA Write", 50, 1 << 20, func(ctx context.Context) error { return s.read(ctx, 1<<20) }},
		{"WRITE of 1 MiB, by RDMA Read", 50, 1 << 20, func(ctx context.Context) error { return s.write(ctx, 1<<20) }},
	} {
		began := time.Now()
		for range c.calls {
			if err := c.call(ctx); err != nil {
				return fmt.Errorf("%s: %w", c.what, err)
			}
		}
		took := time.Since(began)
		rate := ""
		if c.bytes >= 1<<20 {
			rate = fmt.Sprintf(", %.0f MB/s", float64(c.calls*c.bytes)/1e6/took.Seconds())
		}
		d.say("%-30s %5d calls, every byte right, %7.1f us each%s", c.what, c.calls,
			float64(took.Microseconds())/float64(c.calls), rate)
	}
	return nil
}

func echoCall(procedure uint32, args []byte, maxReply int) *rpcrdma.Call {
	return &rpcrdma.Call{
		Program: echo.Program, Version: echo.Version, Procedure: procedure, Args: args, MaxReply: maxReply,
	}
}

func (s *session) null(ctx context.Context) error {
	return s.Call(ctx, echoCall(echo.ProcNull, nil, 0))
}

func (s *session) echo(ctx context.Context, size int) error {
	payload := make([]byte, size)
	echo.Fill(payload)
	c := echoCall(echo.ProcEcho, xdr.AppendOpaque(nil, payload), size+8)
	if err := s.Call(ctx, c); err != nil {
		return err
	}
	if !bytes.Equal(c.Reply, c.Args) {
		return fmt.Errorf("%d other bytes came back", len(c.Reply))
	}
	return nil
}

func (s *session) read(ctx context.Context, size int) error {
	buf, err := s.Alloc(ctx, size+3)
	if err != nil {
		return err
	}
	defer buf.Release()
	c := echoCall(echo.ProcRead, xdr.AppendUint32(nil, uint32(size)), 8)
	c.Results = []rpcrdma.Result{{Buf: buf, Max: size}}
	if err := s.Call(ctx, c); err != nil {
		return err
	}
	dec := xdr.NewDecoder(c.Reply)
	n := dec.Length(size)
	got := buf.Bytes()[:n]
	if c.Results[0].Apart == 0 {
		got = dec.Fixed(n)
	}
	want := make([]byte, size)
	echo.Fill(want)
	if dec.Err() != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes came, not the %d asked for", n, size)
	}
	return nil
}

func (s *session) write(ctx context.Context, size int) error {
	buf, err := s.Alloc(ctx, size)
	if err != nil {
		return err
	}
	defer buf.Release()
	payload := buf.Bytes()[:size]
	echo.Fill(payload)
	c := echoCall(echo.ProcWrite, xdr.AppendUint32(nil, uint32(size)), 8)
	c.Items = []oncrpc.ReplyItem{{Pos: len(c.Args), Buf: buf, Len: size}}
	if err := s.Call(ctx, c); err != nil {
		return err
	}
	dec := xdr.NewDecoder(c.Reply)
	n, crc := dec.Uint32(), dec.Uint32()
	if want := crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)); dec.Err() != nil || int(n) != size || crc != want {
		return fmt.Errorf("%d bytes with CRC32C %08x arrived, not %d with %08x", n, crc, size, want)
	}
	return nil
}
