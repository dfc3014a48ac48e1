package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// busy makes a connection with a call that waits in the service.
func (p *plane) busy(addr string, g *gate) (id string, answered chan error) {
	p.t.Helper()
	c, up := p.dial(addr, nil)
	answered = make(chan error, 1)
	go func() { answered <- null(p.t.Context(), c) }()
	<-g.entered
	return up.ID, answered
}

func TestDrainCanBeWatched(t *testing.T) {
	p := newPlane(t, Config{})
	g := newGate()
	addr := p.listen("a", g)
	p.Start()
	id, answered := p.busy(addr, g)
	if c, _ := p.Connection(id); c.InFlight != 1 || c.State != StateUp {
		t.Errorf("before: %d in flight, %s", c.InFlight, c.State)
	}
	drained := make(chan error, 1)
	go func() { drained <- p.DrainConnection(t.Context(), id) }()
	if e := p.next(ConnChanged); e.Conn.ID != id || e.Conn.State != StateDraining || e.Conn.InFlight != 1 {
		t.Errorf("told of %s, %s, %d in flight", e.Conn.ID, e.Conn.State, e.Conn.InFlight)
	}
	close(g.open)
	if err := errors.Join(<-answered, <-drained); err != nil {
		t.Error(err)
	}
	if e := p.next(ConnDown); e.Reason != "drained by an operator" || e.Conn.InFlight != 0 {
		t.Errorf("down: %q, %d in flight", e.Reason, e.Conn.InFlight)
	}
	if lines := p.log.Lines("connection down"); len(lines) != 1 || !strings.Contains(lines[0], `level=INFO`) || !strings.Contains(lines[0], `reason="drained by an operator"`) {
		t.Errorf("log %q", lines)
	}
}

func TestReasonsOfTheEnd(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name, want string
		end        func(p *plane, id string) error
	}{
		{"close", "closed by an operator", func(p *plane, id string) error { return p.CloseConnection(id) }},
		{"drain", "drained by an operator; cut with calls in flight", func(p *plane, id string) error { return p.DrainConnection(over, id) }},
		{"listener", "the listener was removed; cut with calls in flight", func(p *plane, _ string) error {
			if r := p.listener("a").Remove(over); r != (Removed{Cut: 1}) {
				p.t.Errorf("removed: %+v", r)
			}
			return nil
		}},
		{"shutdown", "rdmad is stopping; cut with calls in flight", func(p *plane, _ string) error { return p.Shutdown(over) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlane(t, Config{})
			g := newGate()
			addr := p.listen("a", g)
			p.Start()
			id, answered := p.busy(addr, g)
			err := c.end(p, id)
			var cut *CutError
			if wantCut := c.name == "drain" || c.name == "shutdown"; wantCut != errors.As(err, &cut) || (err != nil && !wantCut) {
				t.Errorf("error %v", err)
			}
			if <-answered == nil {
				t.Error("answered")
			}
			if e := p.next(ConnDown); e.Reason != c.want {
				t.Errorf("down: %q, want %q", e.Reason, c.want)
			}
		})
	}
}

func TestPeersEndIsNotOurs(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	c, _ := p.dial(addr, nil)
	c.Close()
	if e := p.next(ConnDown); e.Reason != "disconnected" {
		t.Errorf("down: %q", e.Reason)
	}
}

// TestLineOfTheEnd: one line has the reason for the end of a connection, and its counts.
func TestLineOfTheEnd(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	c, up := p.dial(addr, nil)
	for range 3 {
		if err := null(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	s := p.next(ConnDown).Conn.Stats
	want := fmt.Sprintf(`level=INFO msg="connection down" conn=%s listener=a peer=%s reason=disconnected calls=3 replies=3 errors=0 `+
		`rdma_reads=0 rdma_writes=0 bytes_received=%d bytes_sent=%d up_for=`, up.ID, up.PeerPort, s.BytesReceived, s.BytesSent)
	if lines := p.log.Lines("connection down"); len(lines) != 1 || !strings.Contains(lines[0], want) || s.BytesReceived == 0 || s.BytesSent == 0 {
		t.Errorf("logged %q, want %q", lines, want)
	}
}

// TestListenerIsThereWhileItDrains: a draining listener keeps its name but not its address,
// and a second removal may have a shorter time.
func TestListenerIsThereWhileItDrains(t *testing.T) {
	p := newPlane(t, Config{})
	g := newGate()
	addr := p.listen("a", g)
	p.Start()
	_, answered := p.busy(addr, g)
	a, removed := p.listener("a"), make(chan Removed, 1)
	go func() { removed <- a.Remove(t.Context()) }()
	if e := p.next(ConnChanged); e.Conn.State != StateDraining {
		t.Errorf("told of %s", e.Conn.State)
	}
	if l := p.info("a"); l.State != StateDraining || l.Connections != 1 {
		t.Errorf("listener %+v", l)
	}
	if s := p.Stats(); len(s) != 1 || s[0].Totals.Calls != 1 {
		t.Errorf("its counters are gone: %+v", s)
	}
	if _, err := p.add(ListenerConfig{Name: "b", Provider: p.judged, Address: addr, Handler: g}); err != nil {
		t.Errorf("another at its address: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	a.Remove(over)
	<-removed
	if err := <-answered; err == nil {
		t.Error("answered")
	}
	if l := p.Listeners(); len(l) != 1 || l[0].Name != "b" {
		t.Errorf("left: %+v", l)
	}
	p.next(ConnDown)
	if _, up := p.dial(addr, nil); up.Listener != "b" {
		t.Errorf("the address is %s's", up.Listener)
	}
}

// TestNoCallIsLostElsewhere adds and removes listeners and changes limits and
// access while another listener's connections make calls.
func TestNoCallIsLostElsewhere(t *testing.T) {
	const conns, rounds = 4, 30
	p := newPlane(t, Config{})
	addr := p.listen("steady", echo.New())
	p.Start()
	stop := make(chan struct{})
	type result struct {
		calls uint64
		err   error
	}
	results := make(chan result, conns)
	for range conns {
		c, _ := p.dial(addr, nil)
		go func() {
			var r result
			for r.err == nil {
				select {
				case <-stop:
					results <- r
					return
				default:
				}
				r.err = null(t.Context(), c)
				r.calls++
			}
			results <- r
		}()
	}
	for i := range rounds {
		other := p.listenWith("other", Limits{}, Access{})
		if err := p.comeAndGo(p.judged, other); err != nil {
			t.Error(err)
		}
		steady := p.listener("steady")
		if err := steady.Update(Limits{Connections: conns + i}, Access{Deny: prefixes(t, "192.0.2.0/24")}); err != nil {
			t.Error(err)
		}
		steady.EndDenied()
		p.SetLimits(Limits{Connections: 100 + i})
		p.listener("other").Remove(t.Context())
	}
	close(stop)
	var calls uint64
	for range conns {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		}
		calls += r.calls
	}
	for _, s := range p.Stats() {
		if s.Name == "steady" && (s.Totals.Calls != calls || s.Totals.Replies != calls || s.Totals.Dropped != 0 || s.Connections != conns) {
			t.Errorf("%d calls made; the listener has %+v, %d connections", calls, s.Totals, s.Connections)
		}
	}
}

// lingering is a service that is slow to forget a connection.
type lingering struct {
	opener
	forget chan struct{}
}

func (l *lingering) OpenConn(ctx context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	h, err := l.opener.OpenConn(ctx, peer)
	return lingerer{h, l.forget}, err
}

type lingerer struct {
	perconn.Handler
	forget chan struct{}
}

func (l lingerer) Close() {
	<-l.forget
	l.Handler.Close()
}

// After a connection was closed by an operator, the list does not contain it.
func TestEndedIsNotListed(t *testing.T) {
	for name, end := range map[string]func(p *plane, id string) error{
		"close": func(p *plane, id string) error { return p.CloseConnection(id) },
		"drain": func(p *plane, id string) error { return p.DrainConnection(p.t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane(t, Config{})
				s := &lingering{forget: make(chan struct{})}
				addr := p.listen("a", s)
				p.Start()
				_, up := p.dial(addr, nil)
				ended := make(chan error, 1)
				go func() {
					err := end(p, up.ID)
					if left := p.Connections(); len(left) != 0 {
						t.Errorf("listed afterwards: %v", left)
					}
					ended <- err
				}()
				synctest.Wait()
				close(s.forget)
				if err := <-ended; err != nil {
					t.Error(err)
				}
				p.next(ConnDown)
			})
		})
	}
}

// TestDrainsWhileOthersComeUp: the connections of a listener that was replaced are drained while
// others are still being made, which may take as long as the drain. Each of these is drained as soon as
// it is up.
func TestDrainsWhileOthersComeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, Config{})
		s := &laterOpener{open: make(chan struct{})}
		addr := p.listen("a", s)
		p.Start()
		dialed := make(chan error, 3)
		dial := func() {
			c, err := p.open(p.judged, addr, rpcrdma.DialConfig{})
			if err == nil {
				<-c.Done()
				c.Close()
			}
			dialed <- err
		}
		go dial()
		s.open <- struct{}{}
		p.next(ConnUp)
		go dial()
		go dial()
		synctest.Wait()
		old := p.listener("a")
		if _, err := p.add(ListenerConfig{Name: "a", Provider: p.judged, Service: "echo", Handler: echo.New(), From: old}); err != nil {
			t.Fatal(err)
		}
		removed := make(chan Removed, 1)
		go func() { removed <- old.Remove(t.Context()) }()
		for making := range 2 {
			synctest.Wait()
			if up := p.Connections(); len(up) != 0 {
				t.Errorf("%d connections are up while %d are being made", len(up), 2-making)
			}
			s.open <- struct{}{}
		}
		if r := <-removed; r != (Removed{Drained: 3}) {
			t.Errorf("removed: %+v", r)
		}
		if err := errors.Join(<-dialed, <-dialed, <-dialed); err != nil {
			t.Error(err)
		}
	})
}

// TestReplacedListenerLeavesItsAddress: a listener that was replaced takes no requests while its
// connections are drained. They would wait until the drain is over. Where its successor has an address
// that contains its own, they go there.
func TestReplacedListenerLeavesItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, Config{})
		g := newGate()
		addr := p.listen("a", g)
		p.Start()
		_, answered := p.busy(addr, g)
		old := p.listener("a")
		p.listen("a", echo.New()) // elsewhere
		removed := make(chan Removed, 1)
		go func() { removed <- old.Remove(t.Context()) }()
		synctest.Wait()
		if c, err := p.open(p.judged, addr, rpcrdma.DialConfig{}); !errors.Is(err, rdmacm.ErrUnreachable) {
			t.Errorf("connected to %v, %v", c, err)
		}
		close(g.open)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if r := <-removed; r != (Removed{Drained: 1}) {
			t.Errorf("removed: %+v", r)
		}
	})
}

// TestReplacedListenersAreForgotten: a listener that has been replaced often takes no more memory than
// one that has not.
func TestReplacedListenersAreForgotten(t *testing.T) {
	p := newPlane(t, Config{})
	p.listen("a", echo.New())
	p.Start()
	replace := func() weak.Pointer[Listener] {
		old := p.listener("a")
		if _, err := p.add(ListenerConfig{Name: "a", Provider: p.judged, Service: "echo", Handler: echo.New(), From: old}); err != nil {
			t.Fatal(err)
		}
		old.Remove(t.Context())
		return weak.Make(old)
	}
	first := replace()
	replace()
	for until := time.Now().Add(patience); first.Value() != nil; runtime.GC() {
		if time.Now().After(until) {
			t.Fatal("the first listener is not forgotten")
		}
	}
}

// TestListsWhileRdmadEnds: while rdmad drains at its end, listeners and connectors are not listed as up.
func TestListsWhileRdmadEnds(t *testing.T) {
	p := newPlane(t, Config{})
	g := newGate()
	addr := p.listen("a", g)
	k, err := p.PrepareConnector(ConnectorConfig{Name: "out", Provider: p.judged, Stats: func() (s ConnectorStats) { return s }})
	if err != nil {
		t.Fatal(err)
	}
	k.Enter()
	p.Start()
	_, answered := p.busy(addr, g)
	if l, k := p.Listeners()[0], p.Connectors()[0]; l.State != StateUp || k.State != StateUp {
		t.Errorf("before: listener %s, connector %s", l.State, k.State)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Shutdown(t.Context()) }()
	p.next(ConnChanged)
	if l, k := p.Listeners()[0], p.Connectors()[0]; l.State != StateDraining || k.State != StateDraining {
		t.Errorf("while it drains: listener %s, connector %s", l.State, k.State)
	}
	close(g.open)
	if err := errors.Join(<-answered, <-ended); err != nil {
		t.Error(err)
	}
}
