package rpcrdma_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// dialAgain is dial for a client that reconnects.
func (b *bed) dialAgain(p rdmacm.Provider, r rpcrdma.Reconnect) *rpcrdma.Client {
	b.t.Helper()
	c, err := rpcrdma.Dial(b.ctx, refereetest.Around(b.t, p), b.l.Addr().String(), rpcrdma.DialConfig{Reconnect: &r, Logger: slog.New(noErrors{slog.DiscardHandler, b.t})})
	must(b.t, err)
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Errorf("close client: %v", err)
		}
	})
	return c
}

var soon = rpcrdma.Reconnect{MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}

// TestCallsAreSentAgain: calls in flight when the connection is lost are
// answered on the next, under the XIDs that they had.
func TestCallsAreSentAgain(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		const calls = 8
		var mu sync.Mutex
		seen := make(map[uint32]int)
		entered, held := make(chan struct{}, 2*calls), true
		h := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			if c.Procedure == procNull {
				return nil
			}
			mu.Lock()
			seen[c.XID]++
			wait := held
			mu.Unlock()
			if entered <- struct{}{}; wait {
				<-ctx.Done()
				return ctx.Err()
			}
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, p, bedConfig{handler: h})
		c := b.dialAgain(p, soon)
		must(t, plain(b.ctx, c, procNull))
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				var err error
				switch n := 3000 * i; i % 3 {
				case 0:
					err = echo(b.ctx, c, n, 1)
				case 1:
					err = readBack(b.ctx, c, procRead, n, n, 2)
				default:
					err = writeOut(b.ctx, c, n, 3)
				}
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		for range calls {
			<-entered
		}
		mu.Lock()
		held = false
		mu.Unlock()
		(<-b.conns).Close()
		wg.Wait()
		if len(seen) != calls {
			t.Errorf("%d XIDs for %d calls", len(seen), calls)
		}
		for xid, n := range seen {
			if n != 2 {
				t.Errorf("XID %d was seen %d times", xid, n)
			}
		}
		// Fresh calls have fresh XIDs.
		if err := echo(b.ctx, c, 10, 1); err != nil || len(seen) != calls+1 {
			t.Errorf("%v, %d XIDs", err, len(seen))
		}
		if i, s := c.Info(), c.Stats(); i.Connects != 2 || s.Replies != calls+2 || s.Calls != 2*calls+2 {
			t.Errorf("%+v, %+v", i, s)
		}
		if c.Err() != nil {
			t.Error(c.Err())
		}
	})
}

// TestReconnectWithReserve: a client cannot have both.
func TestReconnectWithReserve(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	r := rpcrdma.NewReserve()
	defer r.Close()
	if c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Reserve: r, Reconnect: &soon}); err == nil {
		c.Close()
		t.Error("connected")
	}
}

// TestLossesUnderLoad: connections that end again and again, in the middle of
// anything, lose no call and no byte.
func TestLossesUnderLoad(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c := b.dialAgain(p, soon)
		var replies atomic.Uint64
		ctx, stop := context.WithCancel(b.ctx)
		var cutting sync.WaitGroup
		cutting.Go(func() {
			for {
				select {
				case conn := <-b.conns:
					for last := replies.Load(); replies.Load() < last+3 && ctx.Err() == nil; {
						if err := anyCall(ctx, c, rand.New(rand.NewPCG(7, last))); err != nil && ctx.Err() == nil {
							t.Errorf("%v", err)
						}
						replies.Add(1)
					}
					conn.Close()
				case <-ctx.Done():
					return
				}
			}
		})
		load(t, b.ctx, c, 8, 10, func() { replies.Add(1) })
		for c.Info().Connects < 3 && b.ctx.Err() == nil { // the load may have been too quick
			load(t, b.ctx, c, 1, 4, func() { replies.Add(1) })
		}
		stop()
		cutting.Wait()
		if err := b.ctx.Err(); err != nil {
			t.Errorf("%d connections only: %v", c.Info().Connects, err)
		}
	})
}

// resolves notes when connections are asked for.
type resolves struct {
	rdmacm.Provider
	mu   sync.Mutex
	when []time.Time
}

func (p *resolves) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	p.mu.Lock()
	p.when = append(p.when, time.Now())
	p.mu.Unlock()
	return p.Provider.Resolve(ctx, address)
}

// gaps are the times between attempts.
func (p *resolves) gaps() (d []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 1; i < len(p.when); i++ {
		d = append(d, p.when[i].Sub(p.when[i-1]))
	}
	return d
}

// TestBackoff: attempts come at once, then ever more slowly, only while a call
// waits, and start afresh after a connection that was of use.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &resolves{Provider: loopback.New(loopback.Config{})}
		b := newBed(t, p.Provider, bedConfig{timeout: 24 * time.Hour})
		c := b.dialAgain(p, rpcrdma.Reconnect{MinBackoff: time.Second, MaxBackoff: 10 * time.Second})
		null := func(within time.Duration) error {
			ctx, cancel := context.WithTimeout(b.ctx, within)
			defer cancel()
			return plain(ctx, c, procNull)
		}
		must(t, null(time.Hour))
		b.l.Close()
		(<-b.conns).Close()
		time.Sleep(time.Hour)
		if n := len(p.gaps()); n != 0 {
			t.Fatalf("%d attempts that no call needs", n)
		}
		if err := null(time.Minute); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, rdmacm.ErrUnreachable) {
			t.Errorf("%v", err)
		}
		got := p.gaps()
		if len(got) < 8 || len(got) > 14 {
			t.Fatalf("%d attempts: %v", len(got), got)
		}
		for i, pause := range []time.Duration{1, 2, 4, 8, 10, 10, 10} {
			if d := got[i+1]; d < pause*time.Second/2 || d > pause*time.Second {
				t.Errorf("pause %d of %v", i, d)
			}
		}
		time.Sleep(time.Hour)
		if n := len(p.gaps()); n > len(got)+1 {
			t.Errorf("%d attempts that no call needs", n-len(got))
		}
	})
}

// TestCloseWhileReconnecting: calls that wait for a connection end with the
// client, by Close and by Drain.
func TestCloseWhileReconnecting(t *testing.T) {
	for name, end := range map[string]func(context.Context, *rpcrdma.Client) error{
		"close": func(_ context.Context, c *rpcrdma.Client) error { return c.Close() },
		"drain": func(ctx context.Context, c *rpcrdma.Client) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if err := c.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
				return errors.Join(errors.New("drained with a call waiting"), err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := loopback.New(loopback.Config{})
				b := newBed(t, p, bedConfig{timeout: 24 * time.Hour})
				c := b.dialAgain(p, rpcrdma.Reconnect{})
				b.l.Close()
				(<-b.conns).Close()
				synctest.Wait() // the client knows it, and does not send the call
				failed := begin(func() error { return echo(b.ctx, c, 10, 1) })
				synctest.Wait()
				should(t, end(b.ctx, c))
				if err := <-failed; !errors.Is(err, rpcrdma.ErrClosed) {
					t.Errorf("%v", err)
				}
				if err := echo(b.ctx, c, 10, 1); !errors.Is(err, rpcrdma.ErrClosed) {
					t.Errorf("%v", err)
				}
				<-c.Done()
			})
		})
	}
}

// TestCloseAfterLoss: ErrClosed means that a call was not sent. A call that was sent on a
// connection that was lost, and cannot be made again, fails with the loss.
func TestCloseAfterLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newBlocking()
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: h, timeout: 24 * time.Hour})
		c := b.dialAgain(b.p, rpcrdma.Reconnect{})
		failed := begin(func() error { return echo(b.ctx, c, 10, 1) })
		<-h.entered
		b.l.Close()
		ended := begin((<-b.conns).Close)
		synctest.Wait() // the call waits for a connection
		should(t, c.Close())
		if _, lost := errors.AsType[*rpcrdma.Error](<-failed); !lost {
			t.Error("the call says that it was not sent")
		}
		close(h.release)
		should(t, <-ended)
	})
}

// TestDrainFinishesCalls: Drain waits for calls that lost their connection.
func TestDrainFinishesCalls(t *testing.T) {
	h := newBlocking()
	b := newBed(t, providers[0].make(t), bedConfig{handler: h})
	c := b.dialAgain(b.p, soon)
	first := newCall(procNull) // brings the grant
	must(t, c.Call(b.ctx, &first))
	answered := begin(func() error { return echo(b.ctx, c, 5000, 1) })
	<-h.entered
	drained := begin(func() error { return c.Drain(b.ctx) })
	for { // until the drain has begun
		if err := plain(b.ctx, c, procNull); errors.Is(err, rpcrdma.ErrDraining) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	go (<-b.conns).Close()
	<-h.entered
	close(h.release)
	should(t, <-answered)
	should(t, <-drained)
	<-c.Done()
}

// TestSettingsAtReconnect: what is fixed at connect changes with the next.
func TestSettingsAtReconnect(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{settings: func(s *rpcrdma.Settings) { s.InlineSendMax, s.InlineReceiveSize = 16384, 16384 }})
	c := b.dialAgain(b.p, soon)
	first := <-b.conns
	s := rpcrdma.DefaultSettings()
	s.InlineReceiveSize, s.InlineSendMax, s.RemoteInvalidationAccept = 8192, 8192, false
	c.SetSettings(&s)
	if i := c.Info(); i.InlineReceive != 4096 || i.InlineSend != 4096 || !i.RemoteInvalidation {
		t.Errorf("%+v", i)
	}
	first.Close()
	must(t, echo(b.ctx, c, 100, 1))
	if i := c.Info(); i.InlineReceive != 8192 || i.InlineSend != 8192 || i.RemoteInvalidation || i.PeerReceiveSize != 16384 {
		t.Errorf("%+v", i)
	}
	second := <-b.conns
	if i := second.Info(); i.InlineSend != 8192 || i.RemoteInvalidation || i.PeerRemoteInvalidation {
		t.Errorf("%+v", i)
	}
	// Buffers live on.
	buf, err := c.Alloc(b.ctx, 100000)
	must(t, err)
	defer buf.Release()
	pattern(buf.Bytes(), 4)
	want := slices.Clone(buf.Bytes())
	second.Close()
	if err := writeFrom(b.ctx, c, buf, 100000, 4); err != nil || !slices.Equal(buf.Bytes(), want) {
		t.Error(err)
	}
}

// TestNoCommonVersionIsFinal: a call that needs a version that the server does not speak fails
// with the first connection. The next call tries again.
func TestNoCommonVersionIsFinal(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
	s := rpcrdma.DefaultSettings()
	speaking("required")(&s)
	c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Settings: &s, Reconnect: &soon})
	must(t, err)
	defer c.Close()
	for n := range uint64(2) {
		if err := plain(b.ctx, c, procNull); !errors.Is(err, rpcrdma.ErrNoVersion) || c.Info().Connects != n+1 {
			t.Errorf("call %d: %v after %d connections", n, err, c.Info().Connects)
		}
	}
	s = rpcrdma.DefaultSettings()
	c.SetSettings(&s)
	should(t, plain(b.ctx, c, procNull))
}

// TestNoCommonVersionOfLongAgo: a connection that found no common version before the first call
// does not decide about that call.
func TestNoCommonVersionOfLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
		s := rpcrdma.DefaultSettings()
		speaking("required")(&s)
		s.Extensions |= rpcrdma.ExtCharacteristics
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Settings: &s, Reconnect: &soon})
		must(t, err)
		defer c.Close()
		synctest.Wait() // the server has refused the client's greeting
		s = rpcrdma.DefaultSettings()
		c.SetSettings(&s)
		should(t, plain(b.ctx, c, procNull))
	})
}
