package connector

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// TestScarceMemory: clients that together want more memory than there is wait for each other,
// but not forever.
func TestScarceMemory(t *testing.T) {
	e := newExportWith(t, newLoopback(t), Config{Connector: spec.Connector{Limits: spec.ConnectorLimits{Memory: MinMemory}}, ClientMemory: MinMemory})
	h := e.create("file")
	const size = 700_000
	data := make([]byte, size)
	write := append(nfstest.WriteArgs(h, 0, size, nfstest.Unstable), data...)
	read := nfstest.ReadArgs(h, 0, size)
	if err := e.write(h, 0, data); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 6 {
		c := e.dial(rpctcp.ClientConfig{MaxCalls: 8, Cred: e.cred})
		for i := range 8 {
			wg.Go(func() {
				proc, args := uint32(procRead), read
				if i%2 == 0 {
					proc, args = procWrite, write
				}
				if _, err := c.Call(t.Context(), nfs.Program, 3, proc, args, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

// heapBuffer is memory of the Go heap.
type heapBuffer []byte

func (b heapBuffer) Bytes() []byte { return b }
func (heapBuffer) Release()        {}

// TestNewcomerGetsMemory: when busy clients use all memory of the process, another one gets some.
func TestNewcomerGetsMemory(t *testing.T) {
	const size, clients, depth = 1 << 20, 3, 4
	r := newRig(t, newLoopback(t), handlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		if c.Procedure == procRead {
			r.Stream = append(r.Stream, make([]byte, 2*xdr.Unit)...) // no attributes
			for _, n := range []uint32{size, 1, size} {
				r.Stream = xdr.AppendUint32(r.Stream, n)
			}
			r.AppendItem(make(heapBuffer, size), size)
		}
		return nil
	}), Config{})
	connect := func() *rpctcp.Client {
		c := r.dial(rpctcp.ClientConfig{MaxCalls: depth})
		if _, err := c.Call(t.Context(), nfs.Program, 3, 0, nil, nil); err != nil {
			t.Fatal(err)
		}
		return c
	}
	read := func(c *rpctcp.Client) {
		if _, err := c.Call(t.Context(), nfs.Program, 3, procRead, nfstest.ReadArgs([]byte("file"), 0, size), nil); err != nil {
			t.Error(err)
		}
	}
	var busy []*rpctcp.Client
	for range clients {
		busy = append(busy, connect())
	}
	newcomer := connect()
	offheap.SetLimit(offheap.Read().Used + (clients*depth-3)*size)
	defer offheap.SetLimit(math.MaxInt64)
	var calls atomic.Int32
	var stop atomic.Bool
	warm := make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range busy {
		for range depth {
			wg.Go(func() {
				for !stop.Load() {
					read(c)
					if calls.Add(1) == 2*clients*depth {
						close(warm)
					}
				}
			})
		}
	}
	<-warm
	read(newcomer)
	stop.Store(true)
	wg.Wait()
}
