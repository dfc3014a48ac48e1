package dataplane

import (
	"bytes"
	"context"
	"encoding/binary"
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

// TestReplyMemory: clients with many calls in progress, whose replies may be large, take little
// more than the limit of the memory, and get all their replies.
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
		if n := offheap.Read().Used - before; l.Totals.Calls != clients*(each+1) || n > p.Memory()+clients*each*(sends+8<<10) {
			t.Errorf("%d calls take %d of %d MiB", l.Totals.Calls, n>>20, p.Memory()>>20)
		}
		close(service.open)
		calls.Wait()
	})
}
