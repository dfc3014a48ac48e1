package rpcrdma_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/lease"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// crowd makes calls that reach their server together, while it serves another. It runs
// within synctest.
type crowd struct {
	*bed
	t     *testing.T
	c     *rpcrdma.Client
	conn  *rpcrdma.Conn
	let   chan struct{}                      // lets the first call go
	serve func(ctx context.Context, c *call) // serves the others
	later func(c *call) bool                 // if set, says which of these it answers later, after serve
	led   atomic.Int32                       // of the others, calls served by the leader

	mu    sync.Mutex
	posts []int // requests of each post of the server
}

func newCrowd(t *testing.T) *crowd { return newCrowdOf(t, false) }

// newCrowdOf is newCrowd for a service that may answer later.
func newCrowdOf(t *testing.T, later bool) *crowd {
	k := &crowd{t: t, let: make(chan struct{})}
	p := posting(loopback.New(loopback.Config{}), true, func(wrs []verbs.SendWR, post func()) {
		k.mu.Lock()
		k.posts = append(k.posts, len(wrs))
		k.mu.Unlock()
		post()
	})
	k.bed = newBed(t, p, bedConfig{timeout: time.Hour, later: later, handler: handlerFunc(func(ctx context.Context, c *call, _ *reply) error {
		switch {
		case c.Procedure == procHold:
			<-k.let
		case c.Procedure >= procCrowd:
			if leads() {
				k.led.Add(1)
			}
			k.serve(ctx, c)
			if k.later != nil && k.later(c) {
				return oncrpc.ErrLater
			}
		}
		return nil
	})})
	k.c, k.conn = k.dial(nil)
	k.alone()
	return k
}

// procCrowd is the procedure of a crowd's first call. The others follow.
const procCrowd = 200

// alone makes a call that comes alone. It brings credits.
func (k *crowd) alone() {
	k.t.Helper()
	must(k.t, plain(k.ctx, k.c, procNull))
}

// come makes n calls that reach the server together, and waits for them. after, if not nil,
// is called after each.
func (k *crowd) come(n int, after func(i int, err error)) (posts []int) {
	var calls sync.WaitGroup
	k.led.Store(0)
	calls.Go(func() { should(k.t, plain(k.ctx, k.c, procHold)) })
	synctest.Wait()
	for i := range n {
		calls.Go(func() {
			err := plain(k.ctx, k.c, procCrowd+uint32(i))
			if after != nil {
				after(i, err)
			} else if err != nil {
				k.t.Error(err)
			}
		})
	}
	synctest.Wait()
	k.mu.Lock()
	k.posts = nil
	k.mu.Unlock()
	k.let <- struct{}{}
	calls.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.posts
}

// TestLeaderServesSeveral: the leader serves short calls that came together, and posts
// their replies by one call.
func TestLeaderServesSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrowd(t)
		k.serve = func(context.Context, *call) {}
		for range 3 {
			posts := k.come(20, nil)
			if n := k.led.Load(); n != 20 || !slices.Equal(posts, []int{1, 20}) {
				t.Errorf("the leader served %d of 20 calls, Sends posted together: %v", n, posts)
			}
		}
	})
}

// TestLeaderServesFew: the leader serves calls that are not so short for a moment only, and
// none of the next ones.
func TestLeaderServesFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrowd(t)
		k.serve = func(context.Context, *call) { time.Sleep(20 * time.Microsecond) }
		start := time.Now()
		k.come(7, nil)
		if n, took := k.led.Load(), time.Since(start); n != 3 || took != 80*time.Microsecond {
			t.Errorf("the leader served %d of 7 calls, which took %v", n, took)
		}
		start = time.Now()
		k.come(7, nil)
		if n, took := k.led.Load(), time.Since(start); n != 0 || took != 20*time.Microsecond {
			t.Errorf("then the leader served %d of 7 calls, which took %v", n, took)
		}
	})
}

// TestOneOfSeveralBlocks: calls that came together with one that blocks are answered, those
// before it too, at once if it says that it waits. Then workers serve.
func TestOneOfSeveralBlocks(t *testing.T) {
	for _, says := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := newCrowd(t)
			others := make(chan struct{}, 9)
			k.serve = func(_ context.Context, c *call) {
				if c.Procedure != procCrowd+3 {
					return
				}
				if says {
					c.Waits()
					c.Waits()
				}
				for range 9 {
					<-others
				}
				c.Waits()
			}
			start := time.Now()
			var took atomic.Int64
			k.come(10, func(i int, err error) {
				should(t, err)
				if i != 3 {
					took.Store(int64(time.Since(start)))
					others <- struct{}{}
				}
			})
			most := 2 * lease.Patience
			if says {
				most = 0
			}
			if d := time.Duration(took.Load()); d > most {
				t.Errorf("the others were answered after %v", d)
			}
			k.serve = func(context.Context, *call) {}
			if k.come(4, nil); k.led.Load() != 0 {
				t.Error("the leader serves on")
			}
		})
	}
}

// TestEndWhileServingSeveral: a connection ends while its leader serves one of several
// calls. Everything is freed.
func TestEndWhileServingSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrowd(t)
		k.serve = func(ctx context.Context, c *call) {
			if c.Procedure == procCrowd+3 {
				go k.conn.Close()
				<-ctx.Done()
			}
		}
		k.come(10, func(_ int, err error) {
			if err == nil {
				t.Error("answered")
			}
		})
	})
}

// TestWeightsTakeTurns: while a connection has another weight than others, calls of all of
// them take turns, which the leader's calls do not.
func TestWeightsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrowd(t)
		k.serve = func(context.Context, *call) {}
		c, heavy := k.dial(nil)
		s := rpcrdma.DefaultSettings()
		s.CreditsWeight = 3
		heavy.SetSettings(&s)
		if k.come(5, nil); k.led.Load() != 0 {
			t.Errorf("the leader served %d calls", k.led.Load())
		}
		should(t, c.Close())
		<-heavy.Done()
		if k.come(5, nil); k.led.Load() != 5 {
			t.Errorf("with equal weights the leader served %d calls", k.led.Load())
		}
	})
}
