package rpcrdma_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// away is who a Backchannel's key stands for, as a caller.
type away[K comparable] struct {
	b   *rpcrdma.Backchannel[K]
	key K
}

func (c away[K]) Call(ctx context.Context, call *rpcrdma.Call) error {
	return c.b.Call(ctx, c.key, call)
}

// TestBackchannelWaits: calls to clients that are not connected wait for them,
// and those that a connection took with it are made again on the next, under
// the XIDs that they had.
func TestBackchannelWaits(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		const calls = 6
		var mu sync.Mutex
		seen := make(map[uint32]int)
		entered, hold := make(chan struct{}, 2*calls), true
		h := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			mu.Lock()
			seen[c.XID]++
			wait := hold
			mu.Unlock()
			entered <- struct{}{}
			if wait {
				<-ctx.Done()
				return ctx.Err()
			}
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, p, bedConfig{settings: backward(calls)})
		var room rpcrdma.Backchannel[string]
		done := make(chan error, calls)
		for i := range calls {
			go func() { done <- echo(b.ctx, away[string]{&room, "a"}, 10*i, 1) }()
		}
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: h, Reconnect: &soon}, backward(calls))
		should(t, echo(b.ctx, c, 10, 1)) // on iWARP a client speaks first
		conn.OpenBackchannel()
		room.Bind("a", conn)
		room.Bind("a", conn)
		<-entered
		mu.Lock()
		hold = false
		lost := len(seen)
		mu.Unlock()
		conn.Close()
		next := <-b.conns // the client comes back by itself
		should(t, echo(b.ctx, c, 10, 1))
		next.OpenBackchannel()
		room.Bind("a", next)
		room.Bind("a", conn) // has ended: not used
		for range calls {
			should(t, <-done)
		}
		mu.Lock()
		defer mu.Unlock()
		twice := 0
		for _, n := range seen {
			twice += n - 1
		}
		if len(seen) != calls || twice < lost {
			t.Errorf("%d XIDs for %d calls, %d seen again of %d", len(seen), calls, twice, lost)
		}
		if i := c.Info(); i.Connects != 2 {
			t.Errorf("%+v", i)
		}
	})
}

// TestBackchannelTurnedOn: a client whose connection was lost while it took no
// calls comes back as soon as it does.
func TestBackchannelTurnedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: backward(4), timeout: time.Hour})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}, Reconnect: &soon}, forth)
		conn.Close()
		synctest.Wait() // the client knows
		if n := c.Info().Connects; n != 1 {
			t.Errorf("%d connections, of which nobody wants the second", n)
		}
		s := rpcrdma.DefaultSettings()
		backward(4)(&s)
		c.SetSettings(&s)
		select {
		case conn = <-b.conns:
		case <-b.ctx.Done():
			t.Fatal("it does not come back")
		}
		conn.OpenBackchannel()
		should(t, echo(b.ctx, conn, 10, 1))
	})
}

// TestBackchannelTimeout: a client that does not come, or does not open its back
// channel, is waited for as long as the context lets.
func TestBackchannelTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: backward(4), timeout: time.Hour})
		var room rpcrdma.Backchannel[int]
		wait := func(what string) {
			t.Helper()
			began := time.Now()
			ctx, cancel := context.WithTimeout(b.ctx, 9*time.Second)
			defer cancel()
			err := echo(ctx, away[int]{&room, 7}, 10, 1)
			if !errors.Is(err, rpcrdma.ErrNoBackchannel) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 9*time.Second {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
		}
		wait("not connected")
		_, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
		room.Bind(7, conn)
		wait("not open")
		conn.OpenBackchannel()
		should(t, echo(b.ctx, away[int]{&room, 7}, 10, 1))
		// The latest connection is used, and an older one when it ends.
		c, latest := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
		latest.OpenBackchannel()
		room.Bind(7, latest)
		for range 3 {
			should(t, echo(b.ctx, away[int]{&room, 7}, 10, 1))
		}
		if n := latest.Stats().ReverseCalls; n != 3 {
			t.Errorf("%d calls on the latest connection", n)
		}
		c.Close()
		<-latest.Done()
		should(t, echo(b.ctx, away[int]{&room, 7}, 10, 1))
		room.Unbind(7)
		wait("unbound")
	})
}

// TestUnbindForgets: a connection does not keep what was bound to it once, because its client
// may come under many keys, one after the other.
func TestUnbindForgets(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: backward(4)})
	_, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, backward(4))
	type session struct{ _ [64]byte }
	var room rpcrdma.Backchannel[*session]
	kept := new(session)
	room.Bind(kept, conn)
	var gone []weak.Pointer[session]
	for range 100 {
		s := new(session)
		room.Bind(s, conn)
		gone = append(gone, weak.Make(s))
		room.Unbind(s)
	}
	runtime.GC()
	left := 0
	for _, s := range gone {
		if s.Value() != nil {
			left++
		}
	}
	if left > 1 { // one may still be on the stack
		t.Errorf("%d of %d keys are left after Unbind", left, len(gone))
	}
	if n := room.Len(); n != 1 {
		t.Errorf("%d clients", n)
	}
	conn.Close()
	if n := room.Len(); n != 0 {
		t.Errorf("%d clients after the connection's end", n)
	}
	runtime.KeepAlive(kept)
}

// TestBackchannelBounds: the room holds nobody who is neither connected nor
// waited for, and no more waiters than it should.
func TestBackchannelBounds(t *testing.T) {
	var room rpcrdma.Backchannel[string]
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	var mu sync.Mutex
	outcomes := make(map[error]int)
	for range 1030 {
		waiting.Go(func() {
			null := newCall(procNull)
			err := room.Call(ctx, "a", &null)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, rpcrdma.ErrTooManyCalls):
				outcomes[rpcrdma.ErrTooManyCalls]++
				if outcomes[rpcrdma.ErrTooManyCalls] == 6 {
					cancel()
				}
			case errors.Is(err, rpcrdma.ErrNoBackchannel):
				outcomes[rpcrdma.ErrNoBackchannel]++
			default:
				outcomes[err]++
			}
		})
	}
	waiting.Wait()
	cancel()
	if outcomes[rpcrdma.ErrTooManyCalls] != 6 || outcomes[rpcrdma.ErrNoBackchannel] != 1024 || len(outcomes) != 2 {
		t.Error(outcomes)
	}
	if n := room.Len(); n != 0 {
		t.Errorf("%d clients left", n)
	}
}
