package rpcrdma_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// leads says whether a service runs in the goroutine that polls its connection.
func leads() bool { return within(".drainCQ") }

// within says whether the goroutine is in a function whose name ends so.
func within(name string) bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, name) {
			return true
		}
		if !more {
			return false
		}
	}
}

// Procedures of services that block.
const (
	procHold     = 100 + iota // until the test lets it go
	procHoldLong              // until the connection ends
)

// TestLeaderServes: a call that comes alone is served where it is found, until
// one takes long; then workers have their turn, for longer each time.
func TestLeaderServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes time.Duration
		var led bool
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, handler: handlerFunc(func(context.Context, *call, *reply) error {
			led = leads()
			time.Sleep(takes)
			return nil
		})})
		c, _ := b.dial(nil)
		in := func(d time.Duration, want bool) {
			t.Helper()
			takes = d
			must(t, plain(b.ctx, c, procNull))
			if led != want {
				t.Fatalf("a call of %v: served by the leader: %v", d, led)
			}
		}
		for range 100 {
			in(0, true)
		}
		for _, long := range []time.Duration{3 * time.Millisecond, time.Second} {
			for _, rest := range []int{16, 32, 64} {
				in(long, true)
				for range rest {
					in(long, false)
				}
			}
			in(0, true)
			in(0, true)
		}
	})
}

// TestCallsOverlap: of calls that take a while, the leader serves few when each
// comes while another is served: they go on side by side.
func TestCallsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var led, all atomic.Int32
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, handler: handlerFunc(func(context.Context, *call, *reply) error {
			all.Add(1)
			if leads() {
				led.Add(1)
			}
			time.Sleep(time.Millisecond)
			return nil
		})})
		c, _ := b.dial(nil)
		must(t, plain(b.ctx, c, procNull)) // brings credits
		var callers sync.WaitGroup
		for i := range 2 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Microsecond)
				for range 200 {
					if err := plain(b.ctx, c, procNull); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
		if n := led.Load(); n == 0 || n > all.Load()/10 {
			t.Errorf("the leader served %d of %d calls", n, all.Load())
		}
	})
}

// TestLeaderBlocks: who blocks the leader does not block the connection: neither
// its other calls nor its end.
func TestLeaderBlocks(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		held, release := make(chan struct{}), make(chan struct{})
		b := newBed(t, p, bedConfig{handler: handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			switch c.Procedure {
			case procHold:
				held <- struct{}{}
				<-release
				return nil
			case procHoldLong:
				held <- struct{}{}
				<-ctx.Done()
				return nil
			}
			return service{}.ServeRPC(ctx, c, r)
		})})
		c, conn := b.dial(nil)
		must(t, plain(b.ctx, c, procNull)) // brings credits
		var waiting sync.WaitGroup
		waiting.Go(func() { should(t, plain(b.ctx, c, procHold)) })
		<-held
		for i := range 20 {
			must(t, anyCall(b.ctx, c, rand.New(rand.NewPCG(1, uint64(i)))))
		}
		close(release)
		waiting.Wait()

		c2, conn2 := b.dial(nil)
		waiting.Go(func() {
			var end *rpcrdma.Error
			if err := plain(b.ctx, c2, procHoldLong); !errors.As(err, &end) && !errors.Is(err, rpcrdma.ErrClosed) {
				t.Errorf("%v", err)
			}
		})
		<-held
		should(t, c2.Close())
		<-conn2.Done()
		waiting.Wait()
		should(t, c.Close())
		<-conn.Done()
	})
}

// TestLeadersChange: connections are cut while leaders serve calls, lose the
// lead, and come back from calls that took long.
func TestLeadersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, handler: handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			if n := rand.IntN(100); n < 6 {
				time.Sleep(time.Duration(n) * 8 * time.Millisecond)
			} else if n == 6 {
				panic("now and then")
			}
			return service{}.ServeRPC(ctx, c, r)
		})})
		var callers sync.WaitGroup
		for i := range 12 {
			c, conn := b.dial(nil)
			for j := range 1 + i%3 {
				callers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
					for range 100 {
						if anyCall(b.ctx, c, rng) != nil && c.Err() != nil {
							return
						}
					}
				})
			}
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				switch i % 4 {
				case 0:
					c.Close()
				case 1:
					conn.Close()
				case 2:
					conn.Drain(b.ctx)
				}
			})
		}
		callers.Wait()
	})
}

// replyLooker notes which goroutines take replies.
type replyLooker struct{ callers, others atomic.Int32 }

func (l *replyLooker) Observe(o *rpcrdma.Operation) {
	switch {
	case !o.In || o.Op != verbs.OpSend:
	case within(".pollFor"):
		l.callers.Add(1)
	default:
		l.others.Add(1)
	}
}

// TestCallerPolls: a call that comes alone takes its own reply, however long the connection
// has rested, also on a connection on which the server may call. While calls overlap, a
// goroutine takes replies.
func TestCallerPolls(t *testing.T) {
	for _, serves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var tap rpcrdma.Tap
			var l replyLooker
			tap.Set(&l)
			together := make(chan struct{})
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, handler: handlerFunc(func(_ context.Context, c *call, _ *reply) error {
				if c.Procedure == procHold {
					<-together
				}
				return nil
			})})
			cfg := rpcrdma.DialConfig{Tap: &tap}
			if serves {
				cfg.Handler = service{}
			}
			c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), cfg)
			must(t, err)
			defer c.Close()
			calls := func(n int, pause time.Duration) {
				t.Helper()
				l.callers.Store(0)
				l.others.Store(0)
				for range n {
					must(t, plain(b.ctx, c, procNull))
					time.Sleep(pause)
				}
				if got := l.callers.Load(); got != int32(n) || l.others.Load() != 0 {
					t.Errorf("pause %v: callers took %d replies, others %d", pause, got, l.others.Load())
				}
			}
			calls(1, 0) // brings credits
			calls(100, time.Millisecond)
			time.Sleep(time.Second)
			calls(1, 0)
			calls(10, 0)
			calls(10, time.Second)
			time.Sleep(time.Minute) // ticks free storage
			calls(2, time.Minute)
			var two sync.WaitGroup
			for range 2 {
				two.Go(func() { should(t, plain(b.ctx, c, procHold)) })
			}
			synctest.Wait()
			for range 2 { // each while the other waits, or the last
				together <- struct{}{}
				synctest.Wait()
			}
			two.Wait()
			calls(10, 0)
			synctest.Wait()
		})
	}
}

// TestCallersPass: callers come, go and give up at random, and the connection ends under
// them: each call returns, and nothing is left.
func TestCallersPass(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{handler: handlerFunc(func(_ context.Context, c *call, _ *reply) error {
			if c.Procedure == procHold {
				time.Sleep(50 * time.Microsecond)
			}
			return nil
		})})
		for round := range 6 {
			c, conn := b.dial(nil)
			var callers sync.WaitGroup
			var calls atomic.Int32
			for i := range 3 {
				callers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(round), uint64(i)))
					for {
						ctx, cancel := context.WithCancel(b.ctx)
						if rng.IntN(4) == 0 {
							go cancel()
						}
						err := plain(ctx, c, procNull+uint32(rng.IntN(2))*(procHold-procNull))
						cancel()
						if err != nil && !errors.Is(err, context.Canceled) {
							return // the end
						}
						if calls.Add(1) == 100 && round%3 > 0 {
							if round%3 == 1 {
								go conn.Close()
							} else {
								go c.Close()
							}
						}
						if round%3 == 0 && calls.Load() > 100 {
							return
						}
					}
				})
			}
			callers.Wait()
			if calls.Load() < 100 {
				t.Errorf("%d calls", calls.Load())
			}
		}
	})
}

// TestServerCallsAtOnce: a call of the server to a client that has just called, or has rested
// for long, is answered at once, although no goroutine of the client polls.
func TestServerCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, settings: backward(4)})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
		must(t, echo(b.ctx, c, 10, 1))
		conn.OpenBackchannel()
		for _, pause := range []time.Duration{0, 0, time.Millisecond, time.Second, time.Minute, 0} {
			must(t, echo(b.ctx, c, 10, 1))
			time.Sleep(pause)
			began := time.Now()
			must(t, echo(b.ctx, conn, 10, 1))
			if took := time.Since(began); took > 0 {
				t.Errorf("%v after the client's call the server's took %v", pause, took)
			}
		}
		c.Close()
	})
}
