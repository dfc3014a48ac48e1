package rpcrdma_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// replyHolder holds the goroutine that takes the first reply, so that the others come
// together.
type replyHolder struct {
	seen atomic.Int32
	let  chan struct{}
}

func (h *replyHolder) Observe(o *rpcrdma.Operation) {
	if o.In && o.Op == verbs.OpSend && h.seen.Add(1) == 1 {
		<-h.let
	}
}

// TestCallsLeaveTogether: when replies come together, the next calls of their callers leave
// together.
func TestCallsLeaveTogether(t *testing.T) {
	const callers = 20
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that callers run one after the other
	synctest.Test(t, func(t *testing.T) {
		var counts atomic.Bool
		var posts, sends atomic.Int32
		p := posting(loopback.New(loopback.Config{}), false, func(wrs []verbs.SendWR, post func()) {
			if counts.Load() {
				posts.Add(1)
				sends.Add(int32(len(wrs)))
			}
			post()
		})
		rounds := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		b := newBed(t, p, bedConfig{timeout: time.Hour, handler: handlerFunc(func(_ context.Context, c *call, _ *reply) error {
			if c.Procedure >= procCrowd {
				<-rounds[c.Procedure-procCrowd]
			}
			return nil
		})})
		var tap rpcrdma.Tap
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Tap: &tap})
		must(t, err)
		defer c.Close()
		must(t, plain(b.ctx, c, procNull)) // brings credits
		h := &replyHolder{let: make(chan struct{})}
		tap.Set(h)
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				for i := range uint32(2) {
					should(t, plain(b.ctx, c, procCrowd+i))
				}
			})
		}
		synctest.Wait()
		close(rounds[0])
		synctest.Wait() // the replies are there
		counts.Store(true)
		close(h.let)
		synctest.Wait()
		counts.Store(false)
		close(rounds[1])
		calls.Wait()
		if sends.Load() != callers || posts.Load() > callers/2 {
			t.Errorf("%d calls were posted by %d calls of PostSend", sends.Load(), posts.Load())
		}
	})
}
