package rpcrdma_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime/pprof"
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
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// workers says how many goroutines there are that run services, busy or idle.
func workers(t *testing.T) int {
	t.Helper()
	var all bytes.Buffer
	must(t, pprof.Lookup("goroutine").WriteTo(&all, 2))
	return bytes.Count(all.Bytes(), []byte("transport.(*workers).work("))
}

// postponed is a service that answers when the test says so.
type postponed struct {
	calls chan oncrpc.Later
	led   atomic.Int32 // calls served by the leader
}

func newPostponed() *postponed { return &postponed{calls: make(chan oncrpc.Later, 200)} }

func (p *postponed) ServeRPC(_ context.Context, c *call, _ *reply) error {
	if leads() {
		p.led.Add(1)
	}
	p.calls <- c.Later
	return oncrpc.ErrLater
}

// TestLaterNeedsNoWorker: calls of a service that answers later are served where they are
// found, also while others wait for their answers, and answered by whoever answers. No
// worker exists, at any depth.
func TestLaterNeedsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPostponed()
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, handler: p, later: true})
		c, conn := b.dial(nil)
		total := int32(0)
		for _, depth := range []int{1, 1, 1, 3, 20} {
			var callers sync.WaitGroup
			for range depth {
				callers.Go(func() { should(t, plain(b.ctx, c, procNull)) })
				synctest.Wait() // it was served, or waits for a credit
			}
			total += int32(depth)
			for range depth {
				l := <-p.calls
				l.Answer(nil)
				synctest.Wait()
			}
			callers.Wait()
			if n := p.led.Load(); n != total {
				t.Errorf("the leader served %d of %d calls", n, total)
			}
		}
		if n := workers(t); n != 0 {
			t.Errorf("%d workers", n)
		}
		if s := conn.Stats(); s.Replies != uint64(total) {
			t.Errorf("%d replies", s.Replies)
		}
	})
}

// inOneWay answers as service does: at once, before it returns, or in another goroutine,
// which may be earlier or later than that.
var inOneWay = handlerFunc(func(ctx context.Context, c *call, r *reply) error {
	switch rand.IntN(4) {
	case 0:
		return service{}.ServeRPC(ctx, c, r)
	case 1:
		c.Later.Answer(service{}.ServeRPC(ctx, c, r))
	default:
		go func() { c.Later.Answer(service{}.ServeRPC(ctx, c, r)) }()
	}
	return oncrpc.ErrLater
})

// TestAnswersInAnyOrder: calls of all kinds at several depths, answered in each way, by
// services that say that they answer later and by others.
func TestAnswersInAnyOrder(t *testing.T) {
	for _, later := range []bool{false, true} {
		eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
			b := newBed(t, p, bedConfig{handler: inOneWay, later: later})
			var callers sync.WaitGroup
			for i := range 3 {
				c, _ := b.dial(nil)
				for j := range 1 + 4*i {
					callers.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
						for range 40 {
							if err := anyCall(b.ctx, c, rng); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
			}
			callers.Wait()
		})
	}
}

// TestLaterAtTheEnd: a connection that ends while calls wait for their answers is freed when
// the last of them is answered, and not before.
func TestLaterAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(c *rpcrdma.Client, conn *rpcrdma.Conn){
			"client":  func(c *rpcrdma.Client, _ *rpcrdma.Conn) { go c.Close() },
			"server":  func(_ *rpcrdma.Client, conn *rpcrdma.Conn) { go conn.Close() },
			"drained": func(_ *rpcrdma.Client, conn *rpcrdma.Conn) { go conn.Drain(canceled()) },
		} {
			p := newPostponed()
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, handler: p, later: true})
			c, conn := b.dial(nil)
			var callers sync.WaitGroup
			callers.Go(func() { _ = plain(b.ctx, c, procNull) })
			(<-p.calls).Answer(nil) // brings credits
			callers.Wait()
			for range 3 {
				callers.Go(func() {
					if err := plain(b.ctx, c, procNull); err == nil {
						t.Errorf("%s: answered", name)
					}
				})
			}
			synctest.Wait()
			end(c, conn)
			callers.Wait()
			for range 3 {
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case <-conn.Done():
					t.Errorf("%s: freed with calls in the service", name)
				default:
				}
				(<-p.calls).Answer(nil)
			}
			<-conn.Done()
			c.Close()
		}
	})
}

// canceled returns a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestDrainWaitsForLater: a drain ends when the last call is answered, with its reply.
func TestDrainWaitsForLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPostponed()
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, handler: p, later: true})
		c, conn := b.dial(nil)
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() { should(t, plain(b.ctx, c, procNull)) })
			synctest.Wait()
		}
		(<-p.calls).Answer(nil) // the second may come now
		synctest.Wait()
		drained := begin(func() error { return conn.Drain(b.ctx) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(drained) > 0 {
			t.Error("drained with a call in the service")
		}
		(<-p.calls).Answer(nil)
		callers.Wait()
		should(t, <-drained)
	})
}

// TestSomeAnsweredLater: of calls that came together, the leader posts the replies that it
// has by one call. The others follow when they are answered.
func TestSomeAnsweredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrowdOf(t, true)
		later := make(chan oncrpc.Later, 20)
		k.serve = func(context.Context, *call) {}
		k.later = func(c *call) bool {
			if c.Procedure%3 == 0 {
				return false
			}
			later <- c.Later
			return true
		}
		go func() {
			for range 13 { // of 200 to 219
				l := <-later
				synctest.Wait()
				l.Answer(nil)
			}
		}()
		posts := k.come(20, nil)
		if n := k.led.Load(); n != 20 || len(posts) < 3 || posts[1] != 7 {
			t.Errorf("the leader served %d of 20 calls, Sends posted together: %v", n, posts)
		}
	})
}

// TestLaterBlocks: a service that waits although it says that it answers later delays its
// connection as little as others, and workers serve the next calls. The calls that it has
// not answered stay its own when the next leader takes over.
func TestLaterBlocks(t *testing.T) {
	for _, n := range []int{1, 10} {
		for _, says := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				k := newCrowdOf(t, true)
				later, over := make(chan oncrpc.Later, 20), make(chan struct{})
				blocks := procCrowd + uint32(n)/2
				k.serve = func(_ context.Context, c *call) {
					if c.Procedure != blocks {
						return
					}
					if says {
						c.Waits()
					}
					<-over
				}
				k.later = func(c *call) bool {
					if c.Procedure%2 == 0 {
						return false
					}
					later <- c.Later
					return true
				}
				go func() {
					for range n / 2 {
						(<-later).Answer(nil)
					}
				}()
				start, left := time.Now(), n-1
				var mu sync.Mutex
				if left == 0 {
					go func() {
						time.Sleep(3 * lease.Patience)
						close(over)
					}()
				}
				k.come(n, func(i int, err error) {
					should(t, err)
					mu.Lock()
					defer mu.Unlock()
					if left--; left == 0 {
						if d := time.Since(start); d > 2*lease.Patience {
							t.Errorf("the others were answered after %v", d)
						}
						close(over)
					}
				})
				k.serve, k.later = func(context.Context, *call) {}, nil
				if k.come(4, nil); k.led.Load() != 0 {
					t.Error("the leader serves on")
				}
			})
		}
	}
}

// TestWhoPostsLater: the goroutine that answers posts the reply, but not a large one while
// other calls are in progress.
func TestWhoPostsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let, answering := make(chan struct{}), make(chan struct{}, 10)
		var own, others atomic.Int32
		p := posting(loopback.New(loopback.Config{}), true, func(_ []verbs.SendWR, post func()) {
			if within(".Answer") {
				own.Add(1)
			} else {
				others.Add(1)
			}
			post()
		})
		b := newBed(t, p, bedConfig{timeout: time.Hour, later: true, handler: handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			go func() {
				answering <- struct{}{}
				<-let
				c.Later.Answer(service{}.ServeRPC(ctx, c, r))
			}()
			return oncrpc.ErrLater
		})})
		c, _ := b.dial(nil)
		for _, step := range []struct{ calls, size, others int }{{1, 1000, 0}, {3, 1000, 0}, {1, 512 << 10, 0}, {3, 512 << 10, 2}} {
			own.Store(0)
			others.Store(0)
			var callers sync.WaitGroup
			for i := range step.calls {
				callers.Go(func() {
					should(t, readBack(b.ctx, c, procRead, step.size, step.size, uint32(i)))
				})
				synctest.Wait()
				<-answering
			}
			for range step.calls {
				let <- struct{}{}
				synctest.Wait()
			}
			callers.Wait()
			if n, m := int(own.Load()), int(others.Load()); n != step.calls-step.others || m != step.others {
				t.Errorf("%+v: the goroutines that answered posted %d replies, others %d", step, n, m)
			}
		}
	})
}
