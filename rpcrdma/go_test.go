package rpcrdma_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/lease"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// goer makes calls with Go and waits for their outcomes. polled counts the outcomes that the
// polling goroutine reported, others the rest.
type goer struct {
	*rpcrdma.Client
	polled, others *atomic.Int32
}

func newGoer(c *rpcrdma.Client) goer { return goer{c, new(atomic.Int32), new(atomic.Int32)} }

func (g goer) Call(ctx context.Context, call *rpcrdma.Call) error {
	over := make(chan error, 1)
	if !g.Go(call, func(err error, _ bool) {
		if leads() {
			g.polled.Add(1)
		} else {
			g.others.Add(1)
		}
		over <- err
	}) {
		return g.Client.Call(ctx, call)
	}
	return <-over
}

// dialBoth connects a client on which the server may call, or one on which it may not.
func (b *bed) dialBoth(serves bool) (*rpcrdma.Client, *rpcrdma.Conn) {
	if serves {
		return b.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
	}
	return b.dial(nil)
}

// TestGo: a call made with Go has the outcome of Call, and the polling goroutine reports it.
// On a connection on which callers may poll, a goroutine polls.
func TestGo(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: backward(4)})
		for _, serves := range []bool{false, true} {
			c, _ := b.dialBoth(serves)
			g := newGoer(c)
			for i, n := range []int{0, 1, 1000, 5000, 200_000} {
				if err := echo(b.ctx, g, n, uint32(i)); err != nil {
					t.Errorf("ECHO of %d bytes: %v", n, err)
				}
				buf, err := c.Alloc(b.ctx, n+1)
				must(t, err)
				if err := writeFrom(b.ctx, g, buf, n, uint32(i)); err != nil {
					t.Errorf("WRITE of %d bytes: %v", n, err)
				}
				buf.Release()
				if err := plain(b.ctx, c, procNull); err != nil {
					t.Errorf("a caller that waits: %v", err)
				}
			}
			call := newCall(1234)
			if e, ok := errors.AsType[*oncrpc.AcceptError](g.Call(b.ctx, &call)); !ok || e.Stat != oncrpc.ProcUnavail {
				t.Errorf("refused: %v", e)
			}
			call = newCall(procNull)
			call.MaxReply = -1
			if err := g.Call(b.ctx, &call); err == nil {
				t.Error("an invalid call was made")
			}
			if polled, others := g.polled.Load(), g.others.Load(); polled != 11 || others != 1 { // the invalid call ended in Go
				t.Errorf("the polling goroutine reported %d outcomes, others %d", polled, others)
			}
		}
	})
}

// outcomes collects the outcomes of calls made with Go.
type outcomes struct {
	errs   chan error
	polled atomic.Int32 // reported by the polling goroutine
}

func newOutcomes() *outcomes { return &outcomes{errs: make(chan error, 1000)} }

func (o *outcomes) done(err error, _ bool) {
	if leads() {
		o.polled.Add(1)
	}
	o.errs <- err
}

// TestGoPlansAgain: a call whose plan becomes invalid while it waits for a credit is planned
// again. A worker does that.
func TestGoPlansAgain(t *testing.T) {
	h := newBlocking()
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: h, settings: func(s *rpcrdma.Settings) {
		s.CreditsMin, s.CreditsMax = 1, 1
	}})
	c, _ := b.dial(nil)
	held, long := newCall(procEcho), newCall(procNull)
	held.Args, held.MaxReply = xdr.AppendOpaque(nil, nil), 4
	long.Args = make([]byte, 3000)
	o := newOutcomes()
	if !c.Go(&held, o.done) || !c.Go(&long, o.done) {
		t.Fatal("not made")
	}
	<-h.entered
	s := rpcrdma.DefaultSettings()
	s.InlineSendMax = 1024
	c.SetSettings(&s)
	close(h.release)
	for range 2 {
		should(t, <-o.errs)
	}
	if n := c.Stats().LongCalls; n != 1 || o.polled.Load() != 1 {
		t.Errorf("%d long calls; the polling goroutine reported %d outcomes", n, o.polled.Load())
	}
}

// TestGoEnds: calls in flight, and calls that wait for a credit, have one outcome each when
// the connection ends. Close and Drain return after that. Drain waits for answers.
func TestGoEnds(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var h blocking
		b := newBed(t, p, bedConfig{
			handler:  handlerFunc(func(ctx context.Context, c *call, r *reply) error { return h.ServeRPC(ctx, c, r) }),
			settings: func(s *rpcrdma.Settings) { s.CreditsMax = 8 },
		})
		for name, end := range map[string]func(*bed, *rpcrdma.Client, *rpcrdma.Conn){
			"lost":   func(_ *bed, c *rpcrdma.Client, conn *rpcrdma.Conn) { conn.Close(); <-c.Done() },
			"closed": func(_ *bed, c *rpcrdma.Client, _ *rpcrdma.Conn) { c.Close() },
			"canceled": func(b *bed, c *rpcrdma.Client, _ *rpcrdma.Conn) {
				ctx, cancel := context.WithCancel(b.ctx)
				cancel()
				_ = c.Drain(ctx)
			},
			"drained": func(b *bed, c *rpcrdma.Client, _ *rpcrdma.Conn) {
				should(b.t, c.Drain(b.ctx))
			},
		} {
			h = newBlocking()
			c, conn := b.dial(nil)
			must(t, plain(b.ctx, c, procNull)) // brings credits
			const calls, inFlight = 12, 8
			made := make([]rpcrdma.Call, calls)
			o := newOutcomes()
			for i := range made {
				made[i] = newCall(procEcho)
				made[i].Args, made[i].MaxReply = xdr.AppendOpaque(nil, nil), 4
				if !c.Go(&made[i], o.done) {
					t.Fatal("not made")
				}
			}
			for range inFlight {
				<-h.entered
			}
			if name == "drained" {
				time.AfterFunc(time.Millisecond, func() { close(h.release) })
			}
			end(b, c, conn)
			if len(o.errs) != calls {
				t.Errorf("%s: %d outcomes", name, len(o.errs))
			}
			for range len(o.errs) {
				var lost *rpcrdma.Error
				if err := <-o.errs; (err == nil) != (name == "drained") || err != nil && !errors.As(err, &lost) && !errors.Is(err, rpcrdma.ErrClosed) {
					t.Errorf("%s: %v", name, err)
				}
			}
			late := newCall(procNull)
			if !c.Go(&late, o.done) || len(o.errs) != 1 {
				t.Errorf("%s: another call has no outcome", name)
			} else if err := <-o.errs; err == nil {
				t.Errorf("%s: another call was made", name)
			}
		}
	})
}

// TestGoWithoutMemory: a call that has to wait for memory is not made, and leaves nothing.
func TestGoWithoutMemory(t *testing.T) {
	h := newBlocking()
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: h})
	c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{MemoryLimit: 1})
	must(t, err)
	defer c.Close()
	must(t, plain(b.ctx, c, procNull)) // brings credits, and their receives
	const size = 1 << 20
	made, o := make([]rpcrdma.Call, 8), newOutcomes()
	read := func(i int) bool {
		made[i] = newCall(procRead)
		made[i].Args, made[i].MaxReply = xdr.AppendUint32(xdr.AppendUint32(nil, size), 1), 12
		made[i].Results = []rpcrdma.Result{{Buf: make(heapBuffer, size), Max: size}} // memory from the pool stands in
		return c.Go(&made[i], o.done)
	}
	n := 0
	for read(n) {
		n++
	}
	before := c.Memory().Taken
	if read(n) || n == 0 || len(o.errs) > 0 {
		t.Errorf("%d calls of 1 MiB, then one more without memory", n)
	}
	if taken := c.Memory().Taken; taken > before {
		t.Errorf("%d bytes taken, then %d", before, taken)
	}
	close(h.release)
	for range n {
		should(t, <-o.errs)
	}
	if !read(n) {
		t.Error("not made with memory")
	} else if err := <-o.errs; err != nil {
		t.Error(err)
	}
}

// TestGoReconnects: a client that reconnects makes calls that wait only.
func TestGoReconnects(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
	c := b.dialAgain(b.p, soon)
	call := newCall(procNull)
	if c.Go(&call, func(error, bool) { t.Error("there is an outcome") }) {
		t.Error("made")
	}
}

// TestGoBlocks: when the report of an outcome takes long, the goroutine that makes it loses
// the lead. The outcomes behind it, other calls, calls of the server, and the end of the
// connection wait for 20 ms at most.
func TestGoBlocks(t *testing.T) {
	for _, serves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k, reporting := newCrowd(t), make(chan struct{})
			k.serve = func(context.Context, *call) { <-reporting }
			c, conn := k.c, k.conn
			if serves {
				c, conn = k.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
				must(t, plain(k.ctx, c, procNull))
			}
			// The other replies come while the outcome of the first call is being reported.
			hold := newCall(procHold)
			held, rest, all, let := newOutcomes(), newOutcomes(), make(chan struct{}), make(chan struct{})
			if !c.Go(&hold, func(error, bool) { close(reporting); <-all }) {
				t.Fatal("not made")
			}
			synctest.Wait()
			const calls = 5
			made := make([]rpcrdma.Call, calls)
			for i := range made {
				made[i] = newCall(procCrowd + uint32(i))
				if !c.Go(&made[i], func(err error, more bool) {
					if i == 1 { // the outcomes from the third on wait for this one
						if !more {
							t.Error("no outcome follows")
						}
						<-let
						held.done(err, more)
						return
					}
					rest.done(err, more)
				}) {
					t.Fatal("not made")
				}
			}
			close(k.let)
			synctest.Wait()
			began := time.Now()
			close(all)
			for range calls - 1 {
				should(t, <-rest.errs)
			}
			should(t, plain(k.ctx, c, procNull))
			if serves {
				conn.OpenBackchannel()
				should(t, echo(k.ctx, conn, 10, 1))
			}
			if took := time.Since(began); took > 2*lease.Patience {
				t.Errorf("the others waited %v", took)
			}
			conn.Close()
			synctest.Wait()
			select {
			case <-c.Done():
				t.Error("the connection was freed before the report")
			default:
			}
			close(let)
			should(t, <-held.errs)
			<-c.Done()
		})
	}
}

// TestGoBig: a worker reports a long reply while other calls are in flight.
func TestGoBig(t *testing.T) {
	h := newBlocking()
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: h})
	c, _ := b.dial(nil)
	must(t, plain(b.ctx, c, procNull))
	o := newOutcomes()
	buf, err := c.Alloc(b.ctx, 1<<20)
	must(t, err)
	defer buf.Release()
	read, other := newCall(procHeap), newCall(procEcho)
	read.Args, read.MaxReply = xdr.AppendUint32(xdr.AppendUint32(nil, 1<<20), 1), 12
	read.Results = []rpcrdma.Result{{Buf: buf, Max: 1 << 20}}
	other.Args, other.MaxReply = xdr.AppendOpaque(nil, nil), 4
	for _, alone := range []int32{1, 0} {
		o.polled.Store(0)
		if alone == 0 {
			if !c.Go(&other, o.done) {
				t.Fatal("not made")
			}
			<-h.entered
		}
		if !c.Go(&read, o.done) {
			t.Fatal("not made")
		}
		if err := <-o.errs; err != nil || o.polled.Load() != alone {
			t.Errorf("the polling goroutine reported %d outcomes, not %d: %v", o.polled.Load(), alone, err)
		}
	}
	close(h.release)
	should(t, <-o.errs)
}

// TestGoAnywhere: calls of all kinds, with and without waiting callers and outcomes that take
// long, on connections that end at any moment. Each has one outcome, and nothing is left.
func TestGoAnywhere(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: backward(4)})
		for round := range 8 {
			c, conn := b.dialBoth(round%2 == 0)
			conn.OpenBackchannel()
			var callers sync.WaitGroup
			var over atomic.Int32
			for i := range 4 {
				callers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(round), uint64(i)))
					g := newGoer(c)
					for n := 0; n < 60; n++ {
						var err error
						switch {
						case i == 3 && round%2 == 0:
							err = echo(b.ctx, conn, 10, 1)
						case i == 2:
							err = anyCall(b.ctx, c, rng)
						case i == 1 && n%16 == 0: // several, of which one is slow to report
							var all sync.WaitGroup
							made := make([]rpcrdma.Call, 6)
							all.Add(len(made))
							for k := range made {
								made[k] = newCall(procNull)
								if !c.Go(&made[k], func(error, bool) {
									if k == 2 {
										time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
									}
									all.Done()
								}) {
									all.Done()
								}
							}
							all.Wait()
						default:
							err = echo(b.ctx, g, rng.IntN(20_000), uint32(n))
						}
						if err != nil && c.Err() == nil && round%4 == 0 {
							t.Error(err)
						}
						if over.Add(1) == 100 {
							switch round % 4 {
							case 1:
								go conn.Close()
							case 2:
								go c.Close()
							case 3:
								go func() { _ = c.Drain(b.ctx) }()
							}
						}
					}
				})
			}
			callers.Wait()
		}
	})
}
