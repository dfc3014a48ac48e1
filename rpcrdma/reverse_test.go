package rpcrdma_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// forth turns calls from server to client off.
func forth(s *rpcrdma.Settings) { s.Extensions &^= rpcrdma.ExtBackchannel }

// backward turns calls from server to client on, n at once.
func backward(n uint32) func(*rpcrdma.Settings) {
	return func(s *rpcrdma.Settings) {
		s.Extensions |= rpcrdma.ExtBackchannel
		s.CreditsBackchannel = n
	}
}

// dialServing is dial for a client that answers calls.
func (b *bed) dialServing(cfg rpcrdma.DialConfig, change func(*rpcrdma.Settings)) (*rpcrdma.Client, *rpcrdma.Conn) {
	b.t.Helper()
	s := rpcrdma.DefaultSettings()
	change(&s)
	cfg.Settings, cfg.Logger = &s, slog.New(noErrors{slog.DiscardHandler, b.t})
	c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), cfg)
	must(b.t, err)
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Errorf("close client: %v", err)
		}
	})
	return c, <-b.conns
}

// gate holds calls of procNull until count of them are there.
func gate(count int) handlerFunc {
	var mu sync.Mutex
	all := make(chan struct{})
	return func(ctx context.Context, c *call, r *reply) error {
		if c.Procedure != procNull {
			return service{}.ServeRPC(ctx, c, r)
		}
		mu.Lock()
		if count--; count == 0 {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestBothDirections: 64 calls of the client and 16 of the server are in flight
// together, and more follow at any time.
func TestBothDirections(t *testing.T) {
	const forward, reverse = 64, 16
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{handler: gate(forward), settings: backward(reverse)})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: gate(reverse)}, backward(reverse))
		conn.OpenBackchannel()
		for _, to := range []caller{c, conn} { // for the first grants
			must(t, echo(b.ctx, to, 10, 1))
		}
		var wg sync.WaitGroup
		many := func(to caller, n int) {
			for i := range n {
				wg.Go(func() {
					if err := plain(b.ctx, to, procNull); err != nil {
						t.Errorf("call %d: %v", i, err)
					}
					for k := range 4 {
						if err := echo(b.ctx, to, 37*i+k, uint32(k)); err != nil {
							t.Errorf("call %d: %v", i, err)
						}
					}
				})
			}
		}
		many(c, forward)
		many(conn, reverse)
		wg.Wait()
		s, cs := conn.Stats(), c.Stats()
		if s.Calls != 5*forward+1 || s.ReverseCalls != 5*reverse+1 || s.ReverseReplies != s.ReverseCalls ||
			cs.Replies != s.Calls || cs.ReverseCalls != s.ReverseCalls || cs.ReverseReplies != s.ReverseCalls {
			t.Errorf("server %+v\nclient %+v", s, cs)
		}
		if s.Errors+s.Ignored+s.Dropped+s.Duplicates+cs.Errors+cs.Ignored+cs.Dropped != 0 {
			t.Errorf("server %+v\nclient %+v", s, cs)
		}
		want := rpcrdma.BackchannelState{Open: true, Credits: reverse}
		if got, own := c.Info().Backchannel, conn.Info().Backchannel; got != want || own != want {
			t.Errorf("%+v, %+v", got, own)
		}
		if got := c.Info().CreditsGranted; got != forward {
			t.Errorf("granted %d", got)
		}
	})
}

// TestCallsWithinCalls: a service calls its client before it answers, and the
// client's calls the server again.
func TestCallsWithinCalls(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		conns := make(chan *rpcrdma.Conn, 1)
		var c *rpcrdma.Client
		server := handlerFunc(func(ctx context.Context, k *call, r *reply) error {
			if k.Procedure == procNull {
				conn := <-conns
				conns <- conn
				return echo(ctx, conn, 500, 3)
			}
			return service{}.ServeRPC(ctx, k, r)
		})
		client := handlerFunc(func(ctx context.Context, k *call, r *reply) error {
			if err := echo(ctx, c, 20000, 4); err != nil {
				return err
			}
			return service{}.ServeRPC(ctx, k, r)
		})
		b := newBed(t, p, bedConfig{handler: server, settings: backward(2)})
		var conn *rpcrdma.Conn
		c, conn = b.dialServing(rpcrdma.DialConfig{Handler: client}, backward(2))
		conn.OpenBackchannel()
		conns <- conn
		must(t, echo(b.ctx, c, 10, 1)) // brings more than one credit
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { should(t, plain(b.ctx, c, procNull)) })
		}
		wg.Wait()
	})
}

// TestReverseInlineOnly: what might not fit in one Send is refused where it is
// made; a reply that does not fit is an error header.
func TestReverseInlineOnly(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: backward(4)})
		_, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
		conn.OpenBackchannel()
		for n, ok := range map[int]bool{4096 - 28 - 40 - 4: true, 4096 - 28 - 40: false, 60000: false} {
			err := echo(b.ctx, conn, n, 1)
			if ok != (err == nil) || (!ok && !errors.Is(err, rpcrdma.ErrCallTooLong)) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		long := newCall(procHeap)
		long.Args = xdr.AppendUint32(xdr.AppendUint32(nil, 5000), 1)
		long.MaxReply = 100
		var refused *rpcrdma.PeerError
		if err := conn.Call(b.ctx, &long); !errors.As(err, &refused) {
			t.Errorf("long reply: %v", err)
		}
		should(t, echo(b.ctx, conn, 100, 1))
		if s := conn.Stats(); s.RDMAReads+s.RDMAWrites != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestReverseCanceled: a call that is given up returns at once; its credit
// comes back with the late reply.
func TestReverseCanceled(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		entered, release := make(chan struct{}), make(chan struct{})
		h := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			if c.Procedure == procNull {
				entered <- struct{}{}
				<-release
			}
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, p, bedConfig{settings: backward(1)})
		_, conn := b.dialServing(rpcrdma.DialConfig{Handler: h}, backward(1))
		conn.OpenBackchannel()
		ctx, cancel := context.WithCancel(b.ctx)
		done := make(chan error)
		go func() { done <- plain(ctx, conn, procNull) }()
		<-entered
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		go func() { done <- echo(b.ctx, conn, 10, 1) }()
		close(release)
		should(t, <-done)
		if s := conn.Stats(); s.ReverseCalls != 2 || s.ReverseReplies != 1 || s.BadXIDs != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestReverseLost: the connection ends under calls of both directions. All
// return, whoever ends it.
func TestReverseLost(t *testing.T) {
	ways := map[string]func(*rpcrdma.Client, *rpcrdma.Conn) error{
		"server closes": func(_ *rpcrdma.Client, c *rpcrdma.Conn) error { return c.Close() },
		"client closes": func(c *rpcrdma.Client, _ *rpcrdma.Conn) error { return c.Close() },
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				entered := make(chan struct{}, 100)
				h := handlerFunc(func(ctx context.Context, _ *call, _ *reply) error {
					entered <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				})
				b := newBed(t, p, bedConfig{handler: h, settings: backward(3)})
				c, conn := b.dialServing(rpcrdma.DialConfig{Handler: h}, backward(3))
				conn.OpenBackchannel()
				done := make(chan error, 10)
				for _, to := range []caller{c, c, c, conn, conn, conn} { // some wait for credits
					go func() { done <- plain(b.ctx, to, procNull) }()
				}
				<-entered
				<-entered
				// A client's own calls may still hold memory for a moment.
				if err := end(c, conn); err != nil && !errors.Is(err, verbs.ErrBusy) {
					t.Error(err)
				}
				for range 6 {
					if err := <-done; err == nil {
						t.Error("a call succeeded")
					}
				}
				<-conn.Done()
				var ended *rpcrdma.Error
				if err := plain(b.ctx, conn, procNull); !errors.Is(err, rpcrdma.ErrClosed) && !errors.As(err, &ended) {
					t.Errorf("after the end: %v", err)
				}
			})
		})
	}
}

// TestReverseDrain: draining, at either end, waits for calls from server to
// client, and takes no more.
func TestReverseDrain(t *testing.T) {
	for _, who := range []string{"server", "client"} {
		t.Run(who, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) { reverseDrain(t, p, who == "server") })
		})
	}
}

func reverseDrain(t *testing.T, p rdmacm.Provider, server bool) {
	entered, release := make(chan struct{}, 100), make(chan struct{})
	h := handlerFunc(func(context.Context, *call, *reply) error {
		entered <- struct{}{}
		<-release
		return nil
	})
	b := newBed(t, p, bedConfig{settings: backward(4)})
	c, conn := b.dialServing(rpcrdma.DialConfig{Handler: h}, backward(4))
	must(t, echo(b.ctx, c, 10, 1))
	conn.OpenBackchannel()
	called, drained := make(chan error, 1), make(chan error, 1)
	go func() { called <- plain(b.ctx, conn, procNull) }()
	<-entered
	drain, fresh := c.Drain, caller(c)
	if server {
		drain, fresh = conn.Drain, conn
	}
	go func() { drained <- drain(b.ctx) }()
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	for !errors.Is(plain(ctx, fresh, procNull), rpcrdma.ErrDraining) {
		runtime.Gosched()
	}
	select {
	case err := <-drained:
		t.Errorf("drained with a call in flight: %v", err)
	default:
	}
	close(release)
	should(t, <-called)
	should(t, <-drained)
	<-conn.Done()
	if conn.Err() != nil || c.Err() != nil {
		t.Errorf("%v, %v", conn.Err(), c.Err())
	}
}

// TestReverseHeld: calls wait until the back channel is open, as long as their
// context lets them.
func TestReverseHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: backward(4), timeout: time.Hour})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
		must(t, echo(b.ctx, c, 10, 1))
		began := time.Now()
		ctx, cancel := context.WithTimeout(b.ctx, 7*time.Second)
		defer cancel()
		err := echo(ctx, conn, 10, 1)
		if !errors.Is(err, rpcrdma.ErrNoBackchannel) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 7*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		done := make(chan error)
		go func() { done <- echo(b.ctx, conn, 10, 1) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("not held: %v", err)
		default:
		}
		conn.OpenBackchannel()
		conn.OpenBackchannel()
		should(t, <-done)
		// A connection that ends lets those go that wait.
		c, conn = b.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
		go func() { done <- echo(b.ctx, conn, 10, 1) }()
		synctest.Wait()
		c.Close()
		if err := <-done; !errors.Is(err, rpcrdma.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestReverseHeldOff: calls that wait for the back channel fail as soon as the settings of the
// server, or what the client announces, allow no calls any more.
func TestReverseHeldOff(t *testing.T) {
	on := func(s *rpcrdma.Settings) {
		backward(4)(s)
		s.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics
	}
	off := rpcrdma.DefaultSettings()
	on(&off)
	off.Extensions &^= rpcrdma.ExtBackchannel
	for name, turn := range map[string]func(c *rpcrdma.Client, conn *rpcrdma.Conn){
		"server": func(_ *rpcrdma.Client, conn *rpcrdma.Conn) { conn.SetSettings(&off) },
		"client": func(c *rpcrdma.Client, _ *rpcrdma.Conn) { c.SetSettings(&off) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: on, timeout: time.Hour})
				c, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, on)
				must(t, echo(b.ctx, c, 10, 1))
				done := make(chan error)
				go func() { done <- echo(b.ctx, conn, 10, 1) }()
				synctest.Wait()
				began := time.Now()
				turn(c, conn)
				if err := <-done; !errors.Is(err, rpcrdma.ErrNoBackchannel) || time.Since(began) > time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
		t.Run(name+", for a credit", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: on, timeout: time.Hour})
				served, waiting := make(chan error), make(chan error)
				release := make(chan struct{})
				c, conn := b.dialServing(rpcrdma.DialConfig{Handler: held{release}}, on)
				must(t, echo(b.ctx, c, 10, 1))
				conn.OpenBackchannel()
				go func() { served <- echo(b.ctx, conn, 10, 1) }() // has the only credit before the first reply
				synctest.Wait()
				go func() { waiting <- echo(b.ctx, conn, 10, 1) }()
				synctest.Wait()
				began := time.Now()
				turn(c, conn)
				if err := <-waiting; !errors.Is(err, rpcrdma.ErrNoBackchannel) || time.Since(began) > time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				close(release)
				if err := <-served; err != nil {
					t.Errorf("the one in flight: %v", err)
				}
			})
		})
	}
}

// held serves calls once it is released.
type held struct{ release chan struct{} }

func (h held) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	return service{}.ServeRPC(ctx, c, r)
}

// TestReverseLive: the settings of either end change under calls of both
// directions.
func TestReverseLive(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: forth})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, forth)
		conn.OpenBackchannel()
		if err := echo(b.ctx, conn, 10, 1); !errors.Is(err, rpcrdma.ErrNoBackchannel) {
			t.Errorf("off: %v", err)
		}
		set := func(to interface{ SetSettings(*rpcrdma.Settings) }, change func(*rpcrdma.Settings)) {
			s := rpcrdma.DefaultSettings()
			change(&s)
			to.SetSettings(&s)
		}
		set(c, backward(16))
		set(conn, backward(0))
		if err := echo(b.ctx, conn, 10, 1); !errors.Is(err, rpcrdma.ErrNoBackchannel) {
			t.Errorf("no credits: %v", err)
		}
		for _, n := range []uint32{1, 16, 200, 3, 256, 2} {
			set(conn, backward(n))
			set(c, backward(max(n, 4)-2))
			var wg sync.WaitGroup
			for i := range 24 {
				wg.Go(func() {
					var to caller = conn
					if i%3 == 0 {
						to = c
					}
					for k := range 4 {
						if err := echo(b.ctx, to, 11*i+k, uint32(i)); err != nil {
							t.Errorf("credits %d: %v", n, err)
						}
					}
				})
			}
			wg.Wait()
		}
		set(conn, forth)
		if err := echo(b.ctx, conn, 10, 1); !errors.Is(err, rpcrdma.ErrNoBackchannel) {
			t.Errorf("off again: %v", err)
		}
		// A client goes on: nothing tells the server.
		set(conn, backward(8))
		set(c, forth)
		should(t, echo(b.ctx, conn, 10, 1))
		should(t, echo(b.ctx, c, 9000, 1))
	})
}

// TestHandlerHeedsItsContext: a client connects again when the handlers of its lost connection
// have returned. A call that such a handler makes with its context does not keep it from that.
func TestHandlerHeedsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *rpcrdma.Client
		entered, lost, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		release := make(chan struct{})
		h := handlerFunc(func(ctx context.Context, _ *call, _ *reply) error {
			close(entered)
			<-lost
			failed <- plain(ctx, c, procNull)
			<-release
			return nil
		})
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: backward(4), timeout: time.Hour})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: h, Reconnect: &soon}, backward(4))
		must(t, echo(b.ctx, c, 10, 1))
		conn.OpenBackchannel()
		go func() { _ = plain(b.ctx, conn, procNull) }()
		<-entered
		conn.Close()
		close(lost)
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a call with the handler's context: %v", err)
		}
		time.Sleep(time.Minute)
		if n := c.Info().Connects; n != 1 {
			t.Errorf("%d connections before the handler returned", n)
		}
		close(release)
		if err := echo(b.ctx, c, 10, 1); err != nil || c.Info().Connects != 2 {
			t.Errorf("%v on connection %d", err, c.Info().Connects)
		}
	})
}
