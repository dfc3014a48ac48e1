package connector

import (
	"bytes"
	"context"
	"math"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// watched is a listener whose connections note which goroutines write to them.
type watched struct {
	net.Listener
	polling, others atomic.Int32 // writes
	buffer          int          // bytes that the kernel buffers for the client; 0 means its default
}

// around makes w the listener of a rig's connector.
func (w *watched) around(l net.Listener) net.Listener {
	w.Listener = l
	return w
}

func (w *watched) Accept() (net.Conn, error) {
	nc, err := w.Listener.Accept()
	if err == nil && w.buffer > 0 {
		err = nc.(*net.TCPConn).SetWriteBuffer(w.buffer)
	}
	return watchedConn{nc, w}, err
}

type watchedConn struct {
	net.Conn
	w *watched
}

func (c watchedConn) Write(b []byte) (int, error) {
	stack := make([]byte, 16<<10)
	if strings.Contains(string(stack[:runtime.Stack(stack, false)]), ".(*link).conclude(") {
		c.w.polling.Add(1)
	} else {
		c.w.others.Add(1)
	}
	return c.Conn.Write(b)
}

// running returns how many goroutines are in a function whose name contains text.
func running(text string) int {
	stacks := make([]byte, 4<<20)
	n := 0
	for s := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(s, text) {
			n++
		}
	}
	return n
}

const crewWorks = "rpctcp.(*Crew["

// TestNoHandOver: no worker has a part in a call that comes alone. The goroutine that polls
// the connection to the target writes its reply, of any size, good or bad.
func TestNoHandOver(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r, w := newTargetless(t, p), new(watched)
		r.around = w.around
		e := newExportOn(r, Config{})
		file := e.create("file")
		const size = 1 << 20
		if err := e.write(file, 0, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		c := e.dial(rpctcp.ClientConfig{Cred: e.cred})
		for range 3 {
			for proc, args := range map[uint32][]byte{
				0: nil, 1000: nil,
				procRead:  nfstest.ReadArgs(file, 0, size),
				procWrite: append(nfstest.WriteArgs(file, 0, size, nfstest.Unstable), make([]byte, size)...),
			} {
				_, err := c.Call(t.Context(), nfs.Program, 3, proc, args, nil)
				if (err != nil) != (proc == 1000) {
					t.Errorf("procedure %d: %v", proc, err)
				}
			}
		}
		if n := w.others.Load(); n != 0 || w.polling.Load() == 0 {
			t.Errorf("the polling goroutine wrote %d times, others %d", w.polling.Load(), n)
		}
		if n := running(crewWorks); n != 0 {
			t.Errorf("%d workers", n)
		}
	})
}

// TestMemoryIsShort: calls for which there is no memory go to workers. The reader of the
// client does not wait for them.
func TestMemoryIsShort(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{Connector: spec.Connector{MaxReply: 1 << 20}})
	c := r.dial(rpctcp.ClientConfig{MaxCalls: 8})
	if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
		t.Fatal(err)
	}
	offheap.SetLimit(offheap.Read().Used)
	defer offheap.SetLimit(math.MaxInt64)
	const calls = 3
	answered := make(chan error, calls)
	for i := range calls {
		go func() {
			got, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(100))
			if !bytes.Equal(got, opaque(100)) {
				t.Errorf("%d bytes", len(got))
			}
			answered <- err
		}()
		r.until(func() bool { return running(crewWorks) == i+1 })
	}
	if len(answered) != 0 {
		t.Error("answered without memory")
	}
	offheap.SetLimit(math.MaxInt64)
	for range calls {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

// TestClientDoesNotRead: a client that does not read its replies blocks the goroutine that
// polls the connection to the target. Another one polls then. Calls of the target and further
// calls of the client get through, and nothing is lost once the client reads.
func TestClientDoesNotRead(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		const size, calls = 60_000, 20
		var served atomic.Int32
		target := caller{handlerFunc(func(_ context.Context, _ *oncrpc.Call, r *oncrpc.Reply) error {
			served.Add(1)
			r.Stream = append(r.Stream, make([]byte, size)...)
			return nil
		}), make(chan perconn.Conn, 1)}
		r := newTargetless(t, p)
		r.around = (&watched{buffer: 64 << 10}).around
		r.d.ApplySettings(dataplane.Update{Resolve: settings(func(s *rpcrdma.Settings) {
			s.Extensions |= rpcrdma.ExtBackchannel
			s.CreditsBackchannel = 8
		})}, nil)
		var cfg Config
		r.listen(target, &cfg)
		cfg.MaxReply = 2 * size
		r.connect(cfg)
		nc, records := r.raw()
		if err := nc.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			t.Fatal(err)
		}
		back := <-target.conns
		for i := range uint32(calls) {
			if _, err := nc.Write(echoRecord(i, echo.ProcNull+1, nil)); err != nil {
				t.Fatal(err)
			}
		}
		r.until(func() bool { return running(".(*link).conclude(") > 0 && served.Load() == calls })
		called := make(chan error, 1)
		go func() { called <- back.Call(t.Context(), newCall(1, xdr.AppendUint32(nil, 7))) }()
		r.until(func() bool { return r.c.Stats().Callbacks == 1 })
		if _, err := nc.Write(echoRecord(calls, echo.ProcNull+1, nil)); err != nil {
			t.Fatal(err)
		}
		r.until(func() bool { return served.Load() == calls+1 })
		for range calls + 2 { // the replies and the call of the target
			if _, err := records.Next(); err != nil {
				t.Fatal(err)
			}
			msg, err := records.Read(nil)
			if err != nil {
				t.Fatal(err)
			}
			if xid, mtype, _ := oncrpc.MessageType(msg); mtype == oncrpc.MsgCall {
				if _, err := nc.Write(frame(oncrpc.AppendAcceptedReply(nil, xid))); err != nil {
					t.Fatal(err)
				}
			} else if len(msg) != size+oncrpc.AcceptedReplySize {
				t.Errorf("a reply of %d bytes", len(msg))
			}
		}
		if err := <-called; err != nil {
			t.Error(err)
		}
	})
}
