package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/loopback"
)

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

// inMemory is a service whose sessions have one upstream in memory. It notes which goroutines
// serve and answer its calls.
type inMemory struct {
	*Forwarder
	nc               *scriptConn
	leaders, readers atomic.Int32
}

func (m *inMemory) OpenConn(_ context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	m.stats.connections.Add(1)
	return &noted{newSession(m.Forwarder, peer, m.nc), m}, nil
}

type noted struct {
	*Session
	m *inMemory
}

func (n *noted) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if within(".drainCQ") {
		n.m.leaders.Add(1)
	}
	r.Watch(n)
	return n.Session.ServeRPC(ctx, c, r)
}

func (n *noted) Served(context.Context, *oncrpc.Call, *oncrpc.Reply, time.Time, time.Time, error) {
	if within("(*Session).read") {
		n.m.readers.Add(1)
	}
}

// TestNoHandOver: each call is sent by the goroutine that polls its connection, and answered
// by the one that reads the upstream, also while others wait for the upstream. No worker
// exists.
func TestNoHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &inMemory{New(Config{}), newScriptConn(), atomic.Int32{}, atomic.Int32{}}
		xids := make(chan uint32, 100)
		m.nc.wrote = func(b []byte) { xids <- binary.BigEndian.Uint32(b[4:]) }
		d := dataplane.New(dataplane.Config{Logger: slog.New(slog.DiscardHandler)})
		p := loopback.New(loopback.Config{})
		listener, err := d.PrepareListener(t.Context(), dataplane.ListenerConfig{Name: "in", Provider: p, Address: "127.0.0.1:0", Service: "upstream", Handler: m})
		if err != nil {
			t.Fatal(err)
		}
		listener.Enter()
		d.Start()
		c, err := rpcrdma.Dial(t.Context(), p, listener.Info().Address.String(), rpcrdma.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		total := int32(0)
		for _, depth := range []int{1, 1, 1, 2, 20} {
			var callers sync.WaitGroup
			for range depth {
				callers.Go(func() {
					if err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait() // the upstream has it
			}
			total += int32(depth)
			for range depth {
				m.nc.next <- record(success(<-xids), 0)
			}
			callers.Wait()
			if l, r := m.leaders.Load(), m.readers.Load(); l != total || r != total {
				t.Errorf("of %d calls leaders served %d, readers answered %d", total, l, r)
			}
		}
		var all bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(all.String(), "transport.(*workers).work("); n != 0 {
			t.Errorf("%d workers", n)
		}
		c.Close()
		if err := d.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// begin makes a call of a session that is answered later.
func begin(t *testing.T, s *Session, ctx context.Context, xid uint32) *waiter {
	t.Helper()
	w := newWaiter(s)
	if err := s.ServeRPC(ctx, &oncrpc.Call{XID: xid, Program: nfsProgram, Version: 3, Later: w}, new(oncrpc.Reply)); !errors.Is(err, oncrpc.ErrLater) {
		t.Errorf("call %d: %v", xid, err)
	}
	return w
}

// TestReplyBeforeSent: a reply that comes before its call is sent to the end is given to the
// client when the call's memory is no longer used, and not before.
func TestReplyBeforeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := newScriptConn()
		s := newSession(New(Config{}), netip.AddrPort{}, nc)
		defer s.Close()
		w := newWaiter(s)
		nc.wrote = func([]byte) {
			nc.next <- record(success(1), 0)
			synctest.Wait()
			if s.Stats().Replies != 1 || len(w.over) > 0 {
				t.Errorf("answered while it is sent: %v", len(w.over) > 0)
			}
		}
		if err := s.ServeRPC(t.Context(), &oncrpc.Call{XID: 1, Later: w}, new(oncrpc.Reply)); !errors.Is(err, oncrpc.ErrLater) {
			t.Error(err)
		}
		if len(w.over) != 1 {
			t.Error("not answered when it was sent")
		}
	})
}

// Stats returns the counters of the session's forwarder.
func (s *Session) Stats() Stats { return s.f.Stats() }

// TestHeldUntilTheEnd: when the upstream is lost, calls that wait for it, and later ones, are
// answered only when the client's connection has ended: all of them, once. No goroutine waits
// for that.
func TestHeldUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := newScriptConn()
		s := newSession(New(Config{}), netip.AddrPort{}, nc)
		ended := make(chan string, 1)
		s.Up(fakeConn{ended: ended})
		ctx, cancel := context.WithCancel(t.Context())
		var all []*waiter
		for xid := range uint32(5) {
			all = append(all, begin(t, s, ctx, xid))
		}
		before := runtime.NumGoroutine()
		close(nc.next)
		if why := <-ended; !strings.Contains(why, "closed its connection") {
			t.Errorf("ended for %q", why)
		}
		all = append(all, begin(t, s, ctx, 0), begin(t, s, ctx, 7)) // XIDs do not matter any more
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := runtime.NumGoroutine(); n >= before { // the reader has ended
			t.Errorf("%d goroutines, %d before", n, before)
		}
		for i, w := range all {
			if len(w.over) > 0 {
				t.Errorf("call %d was answered: %v", i, <-w.over)
			}
		}
		cancel()
		synctest.Wait()
		late := begin(t, s, ctx, 8)
		for i, w := range append(all, late) {
			if err := <-w.over; !errors.Is(err, io.EOF) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		s.Close()
		if s := s.Stats(); s.Lost != 1 || s.Calls != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// upSession returns a session whose calls have a timeout, the upstream's end of its connection, and
// where the reason of its end goes.
func upSession(timeout time.Duration) (*scriptConn, *Session, <-chan string) {
	nc, ended := newScriptConn(), make(chan string, 1)
	s := newSession(New(Config{Forward: spec.Forward{CallTimeout: timeout}}), netip.AddrPort{}, nc)
	s.Up(fakeConn{ended: ended})
	return nc, s, ended
}

// TestTimesOut: a call times out by its own time, not by that of earlier ones. A reply that
// does not come to its end times out as well. While a call's own items arrive, the upstream
// has more time.
func TestTimesOut(t *testing.T) {
	const timeout = time.Minute
	read := record(success(2, didRead("some data")), 0)
	for name, c := range map[string]struct {
		second func(nc *scriptConn)
		want   time.Duration
	}{
		"unanswered":    {func(*scriptConn) {}, 40*time.Second + timeout},
		"half answered": {func(nc *scriptConn) { nc.next <- read[:len(read)-4] }, 40*time.Second + timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, s, ended := upSession(timeout)
				defer s.Close()
				ctx, cancel := context.WithCancel(t.Context())
				start := time.Now()
				first := begin(t, s, ctx, 1)
				time.Sleep(40 * time.Second)
				second := begin(t, s, ctx, 2)
				nc.next <- record(success(1), 0)
				if err := <-first.over; err != nil {
					t.Error(err)
				}
				c.second(nc)
				why := <-ended
				if d := time.Since(start); d != c.want || !strings.Contains(why, "no answer to call 0x2 within 1m0s") {
					t.Errorf("after %v the connection ended for %q", d, why)
				}
				cancel()
				if err := <-second.over; err == nil {
					t.Error("answered")
				}
				if n := s.Stats().Timeouts; n != 1 {
					t.Errorf("%d timeouts", n)
				}
			})
		})
	}
	t.Run("arriving", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, s, ended := upSession(timeout)
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			w, a := newWaiter(s), &arrival{make(chan int)}
			call := &oncrpc.Call{XID: 1, Program: nfsProgram, Version: 4, Procedure: 1, Args: twoWrites(random(1000), random(1000)), Arrival: a, Later: w}
			go func() {
				if err := s.ServeRPC(ctx, call, new(oncrpc.Reply)); !errors.Is(err, oncrpc.ErrLater) {
					t.Error(err)
				}
			}()
			start := time.Now()
			time.Sleep(10 * timeout)
			a.there <- 2000
			<-ended
			if d := time.Since(start); d != 11*timeout {
				t.Errorf("after %v", d)
			}
			cancel()
			if err := <-w.over; err == nil {
				t.Error("answered")
			}
		})
	})
}

// TestIdleAfterCalls: the timer of a session does not run on when no call waits.
func TestIdleAfterCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := newScriptConn()
		s := newSession(New(Config{}), netip.AddrPort{}, nc)
		defer s.Close()
		for range 3 {
			w := begin(t, s, t.Context(), 1)
			nc.next <- record(success(1), 0)
			if err := <-w.over; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			s.mu.Lock()
			if s.armed || s.err != nil {
				t.Errorf("armed: %v, %v", s.armed, s.err)
			}
			s.mu.Unlock()
		}
	})
}

// TestOutsideConnection: a transport that takes no later answers gets an error.
func TestOutsideConnection(t *testing.T) {
	s := newSession(New(Config{}), netip.AddrPort{}, newScriptConn())
	defer s.Close()
	if err := s.ServeRPC(t.Context(), new(oncrpc.Call), new(oncrpc.Reply)); !errors.Is(err, errNoConn) {
		t.Error(err)
	}
}

// TestDrainWaitsForUpstream: a connection that is drained with calls at the upstream ends
// when the last of them is answered.
func TestDrainWaitsForUpstream(t *testing.T) {
	u := newUpstream(t)
	r := newRig(t, loopback.New(loopback.Config{}), u.address)
	c := r.dial()
	p := u.accept()
	answered := make(chan error, 3)
	null := func() { answered <- c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}) }
	go null()
	p.send(success(p.call().XID), 0) // brings credits
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	go null()
	go null()
	first, second := p.call().XID, p.call().XID
	drained := make(chan error, 1)
	go func() { drained <- r.d.DrainConnection(t.Context(), r.d.Connections()[0].ID) }()
	for r.d.Connections()[0].State != dataplane.StateDraining {
		runtime.Gosched()
	}
	p.send(success(first), 0)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if len(drained) > 0 {
		t.Error("drained with a call at the upstream")
	}
	p.send(success(second), 0)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}
