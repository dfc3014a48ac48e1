package connector

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/forward"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// TestTargetHere: calls that use all memory of the process do not wait for ever for a target that needs some to
// answer them: a listener of the same process, or one that forwards to a service on TCP or to a connector there.
func TestTargetHere(t *testing.T) {
	const size, clients, depth = 1 << 20, 3, 16
	forwards := func(address string) oncrpc.Handler {
		return forward.New(forward.Config{Forward: spec.Forward{Address: address}})
	}
	for name, leads := range map[string]func(*testing.T, oncrpc.Handler) oncrpc.Handler{
		"a listener": func(_ *testing.T, h oncrpc.Handler) oncrpc.Handler { return h },
		"a service on TCP": func(t *testing.T, h oncrpc.Handler) oncrpc.Handler {
			return forwards(nfstest.ServeTCP(t, h))
		},
		"another connector": func(t *testing.T, h oncrpc.Handler) oncrpc.Handler {
			return forwards(newRig(t, newLoopback(t), h, Config{}).c.Addr().String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var full atomic.Bool
			r := newRig(t, newLoopback(t), leads(t, handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
				if c.Procedure != procRead {
					return nil
				}
				for !full.Load() && ctx.Err() == nil { // until others have all memory
					time.Sleep(time.Millisecond)
				}
				buf, err := r.Mem.Alloc(ctx, size)
				if err != nil {
					return err
				}
				r.Stream = append(r.Stream, make([]byte, 2*xdr.Unit)...) // no attributes
				for _, n := range []uint32{size, 1, size} {
					r.Stream = xdr.AppendUint32(r.Stream, n)
				}
				r.AppendItem(buf, size)
				return nil
			})), Config{})
			var all []*rpctcp.Client
			for range clients {
				c := r.dial(rpctcp.ClientConfig{MaxCalls: depth})
				if _, err := c.Call(ctx, nfs.Program, 3, 0, nil, nil); err != nil { // before it there is one credit
					t.Fatal(err)
				}
				all = append(all, c)
			}
			offheap.SetLimit(offheap.Read().Used + clients*depth*size/2)
			defer offheap.SetLimit(math.MaxInt64)
			var calls sync.WaitGroup
			for _, c := range all {
				for range depth {
					calls.Go(func() {
						if _, err := c.Call(ctx, nfs.Program, 3, procRead, nfstest.ReadArgs([]byte("file"), 0, size), nil); err != nil {
							t.Error(err)
						}
					})
				}
			}
			r.until(func() bool { return offheap.Waiting() > 0 })
			full.Store(true)
			calls.Wait()
		})
	}
}
