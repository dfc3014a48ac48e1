package dataplane

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// stuck is a service that answers free calls, and the others only after open is closed.
type stuck struct {
	next *echo.Service
	free atomic.Int64
	open chan struct{}
}

func (s *stuck) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	if s.free.Add(-1) < 0 {
		<-s.open
	}
	return s.next.ServeRPC(ctx, call, reply)
}

// TestReplyMemory: clients with many calls in progress, whose replies may be large, take no more
// than the limit of the memory, and get all their replies.
func TestReplyMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, each, length = 40, 8, 15_000
		s := rpcrdma.DefaultSettings()
		s.InlineSendMax, s.InlineReceiveSize = 256<<10, 16<<10
		s.CreditsMax = each
		peer := rpcrdma.DefaultSettings()
		peer.InlineReceiveSize, peer.InlineSendMax = 256<<10, 16<<10
		p := newPlane(t, Config{Memory: 4 * MinMemory, Resolver: func(ConnKey) *rpcrdma.Settings { return &s }})
		p.Start()
		service := &stuck{next: echo.New(), open: make(chan struct{})}
		service.free.Store(clients)
		addr := p.listen("l", service)
		args := binary.BigEndian.AppendUint32(nil, length)
		args = append(args, bytes.Repeat([]byte{7}, length)...)
		call := func(c *rpcrdma.Client) {
			one := rpcrdma.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho, Args: args, MaxReply: len(args)}
			if err := c.Call(t.Context(), &one); err != nil || !bytes.Equal(one.Reply, args) {
				t.Errorf("%v, %d bytes", err, len(one.Reply))
			}
		}
		var all []*rpcrdma.Client
		for range clients {
			c, _ := p.dial(addr, &peer)
			call(c) // brings the credits
			all = append(all, c)
		}
		var calls sync.WaitGroup
		before := offheap.Read().Used // with the receives of the clients
		for _, c := range all {
			for range each {
				calls.Go(func() { call(c) })
			}
		}
		time.Sleep(time.Second)
		l := p.Stats()[0]
		const sends = 32 << 10 // of a client for a call
		if n := offheap.Read().Used - before; l.Totals.Calls != clients*(each+1) || n > p.Memory()+clients*each*sends {
			t.Errorf("%d calls take %d of %d MiB", l.Totals.Calls, n>>20, p.Memory()>>20)
		}
		close(service.open)
		calls.Wait()
	})
}

// TestIdleWake: idle clients with many credits, of which only the receives count, may all call at
// once. While their calls wait they take no memory beyond the limit. All get their replies.
func TestIdleWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, each = 16, 64
		s := rpcrdma.DefaultSettings()
		s.CreditsPolicy, s.CreditsMax = rpcrdma.CreditsAdaptive, each
		p := newPlane(t, Config{Memory: MinMemory, Resolver: func(ConnKey) *rpcrdma.Settings { return &s }})
		p.Start()
		service := &stuck{next: echo.New(), open: make(chan struct{})}
		service.free.Store(math.MaxInt64)
		addr := p.listen("l", &slow{service, 10 * time.Millisecond})
		var all []*rpcrdma.Client
		for range clients {
			c, _ := p.dial(addr, nil)
			l := startLoad(t, c, each)
			time.Sleep(time.Second)
			l.end()
			all = append(all, c)
		}
		time.Sleep(time.Second)
		beyond := func() int64 { // what no pool has
			n := offheap.Read().Used - p.Stats()[0].Memory.Registered
			for _, c := range all {
				n -= c.Memory().Registered
			}
			return n
		}
		before := beyond()
		service.free.Store(0)
		var calls sync.WaitGroup
		for _, c := range all {
			for range each {
				calls.Go(func() {
					if err := c.Call(t.Context(), &rpcrdma.Call{Program: echo.Program, Version: echo.Version}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		time.Sleep(time.Second)
		if n := beyond() - before; n > 0 {
			t.Errorf("calls that wait take %d KiB beyond %d MiB", n>>10, p.Memory()>>20)
		}
		close(service.open)
		calls.Wait()
	})
}
