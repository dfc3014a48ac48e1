package dataplane

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
)

// TestTracedFromTheFirstMessage: a watcher that is there before a connection
// sees its first call, under the names that operators know it by, and with
// the private data of its handshake.
func TestTracedFromTheFirstMessage(t *testing.T) {
	p := newPlane(t, Config{})
	address := p.listen("test", echo.New())
	p.Start()
	w, err := p.Tracing().Watch(trace.Filter{Listener: "test"}, trace.All)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c, info := p.dial(address, nil)
	if err := null(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, in := range []bool{true, false} {
		e, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.In != in || e.Conn.ID != info.ID || e.Conn.Peer != info.PeerPort || e.Conn.Local.String() != address {
			t.Errorf("saw %+v of %+v, in: want %v", e, e.Conn.Info, in)
		}
		if len(e.Conn.PeerPrivate) != 8 || len(e.Conn.OwnPrivate) != 8 {
			t.Errorf("private data: % x and % x", e.Conn.PeerPrivate, e.Conn.OwnPrivate)
		}
	}
	named, err := p.Tracing().Watch(trace.Filter{Connections: []string{info.ID}}, trace.All)
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	c.Close()
	p.next(ConnDown)
	if _, err := named.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("the watcher of a connection that ended: %v", err)
	}
}

// TestEndedConnectionsAreForgotten: a connection that ended leaves nothing
// behind.
func TestEndedConnectionsAreForgotten(t *testing.T) {
	p := newPlane(t, Config{})
	address := p.listen("test", echo.New())
	p.Start()
	c, info := p.dial(address, nil)
	c.Close()
	p.next(ConnDown)
	if id := p.Tracing().Missing(&trace.Filter{Connections: []string{info.ID}}); id != info.ID {
		t.Errorf("connection %s is still known", info.ID)
	}
}

// TestStoppedReaderDelaysNobody: readers that do not read take every place for watchers. 64
// calls in flight continue, all rings fill up, and events without room are counted.
func TestStoppedReaderDelaysNobody(t *testing.T) {
	p := newPlane(t, Config{})
	address := p.listen("test", echo.New())
	p.Start()
	watchers := make([]*trace.Watcher, trace.MaxWatchers)
	for i := range watchers {
		var err error
		if watchers[i], err = p.Tracing().Watch(trace.Filter{}, trace.All); err != nil {
			t.Fatal(err)
		}
		defer watchers[i].Close()
	}
	c, _ := p.dial(address, nil)
	const depth, size = 64, 16 << 10
	var left atomic.Int64
	left.Store(3 * trace.RingBytes / size)
	var calls sync.WaitGroup
	for range depth {
		calls.Go(func() {
			buf, err := c.Alloc(t.Context(), size)
			if err != nil {
				t.Error(err)
				return
			}
			defer buf.Release()
			for left.Add(-1) >= 0 {
				call := rpcrdma.Call{
					Program: echo.Program, Version: echo.Version, Procedure: echo.ProcRead,
					Args: xdr.AppendUint32(nil, size), MaxReply: 8, Results: []rpcrdma.Result{{Buf: buf, Max: size}},
				}
				if err := c.Call(t.Context(), &call); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	calls.Wait()
	for i, w := range watchers {
		kept, written := 0, 0
		e, err := w.TryNext()
		for ; e != nil; e, err = w.TryNext() {
			kept += len(e.Data)
			if e.Op == verbs.OpRDMAWrite {
				written++
			}
			if e.Dropped == 0 {
				t.Fatalf("watcher %d dropped nothing", i)
			}
		}
		if err != nil || kept > trace.RingBytes || kept < trace.RingBytes/2 || written == 0 {
			t.Errorf("watcher %d kept %d bytes, %d RDMA Writes: %v", i, kept, written, err)
		}
	}
}
