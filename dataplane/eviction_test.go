package dataplane

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/rpcrdma"
)

// newcomer wants a place and never has anything to do.
type newcomer struct{}

func (newcomer) Busy() bool               { return false }
func (newcomer) Evict(connlimit.Eviction) {}

// newcomerAt asks a listener for a place, as a peer that connects and makes a call
// after a time.
func (p *plane) newcomerAt(name, peer string, later time.Duration) error {
	p.t.Helper()
	now := time.Now().Add(later)
	place, err := p.listeners[name].places.Admit(now, connlimit.Name(peer), connlimit.Ordinary, newcomer{})
	if err == nil {
		place.Touch(now)
		p.t.Cleanup(place.Leave)
	}
	return err
}

// TestIdlestConnectionGoes: when all connections are taken, the one that never
// made a call goes first, then the one that was idle for longest, and one with a
// call in flight never.
func TestIdlestConnectionGoes(t *testing.T) {
	p := newPlane(t, Config{})
	g := newGate()
	added, err := p.add(ListenerConfig{
		Name: "a", Provider: p.judged, Address: "127.0.0.1:0", Service: "echo", Handler: g, Limits: Limits{Connections: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Start()
	address := added.Info().Address.String()
	busy, idle := p.connect(p.host("192.0.2.1"), address), p.connect(p.host("192.0.2.2"), address)
	silent := p.connect(p.host("192.0.2.3"), address)
	called := make(chan error, 2)
	go func() { called <- null(t.Context(), idle) }()
	<-g.entered
	g.open <- struct{}{}
	if err := <-called; err != nil {
		t.Fatal(err)
	}
	go func() { called <- null(t.Context(), busy) }()
	<-g.entered

	p.rejected(p.host("192.0.2.4"), address, RefusedConnections) // none is idle yet
	if err := p.newcomerAt("a", "later", connlimit.HalfOpenGrace); err != nil {
		t.Fatal(err)
	}
	const why = "idle, and its place of listener a was needed for "
	if down := p.next(ConnDown); down.Conn.ConnKey.Peer.String() != "192.0.2.3" || down.Reason != why+"later" {
		t.Errorf("down: %v, %s", down.Conn.ConnKey.Peer, down.Reason)
	}
	<-silent.Done()
	if err := p.newcomerAt("a", "last", connlimit.Grace); err != nil {
		t.Fatal(err)
	}
	if down := p.next(ConnDown); down.Conn.ConnKey.Peer.String() != "192.0.2.2" || down.Reason != why+"last" {
		t.Errorf("down: %v, %s", down.Conn.ConnKey.Peer, down.Reason)
	}
	p.listeners["a"].places.Age(time.Now().Add(time.Hour)) // no time is too long by default
	g.open <- struct{}{}
	if err := <-called; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if got := p.info("a").Evictions; got != (connlimit.Counts{connlimit.Total: 2}) {
		t.Errorf("evicted %v", got)
	}
}

// TestLastUseCounts: the connection whose last call ended first loses its place, not the
// one that connected first.
func TestLastUseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, Config{})
		a := p.listenWith("a", Limits{Connections: 2}, Access{})
		p.Start()
		first, second := p.connect(p.host("192.0.2.1"), a), p.connect(p.host("192.0.2.2"), a)
		for _, c := range []*rpcrdma.Client{first, second, first} {
			if err := null(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(connlimit.Grace)
		if err := p.newcomerAt("a", "newcomer", 0); err != nil {
			t.Fatal(err)
		}
		if down := p.next(ConnDown); down.Conn.ConnKey.Peer.String() != "192.0.2.2" {
			t.Errorf("down: %v, %s", down.Conn.ConnKey.Peer, down.Reason)
		}
	})
}

// TestMemoryMakesPlaces: when memory has no room for another connection, a newcomer
// takes the place of one as if the limit were reached, and has its memory at once.
func TestMemoryMakesPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpcrdma.DefaultSettings()
		s.InlineReceiveSize = 64 << 10
		p := newPlane(t, Config{Memory: MinMemory, Resolver: func(ConnKey) *rpcrdma.Settings { return &s }})
		a := p.listen("a", echo.New())
		p.Start()
		room := 0
		for ; room == 0 || p.listeners["a"].rl.Room(&s) > 0; room++ {
			if err := null(t.Context(), p.connect(p.host("192.0.2.66"), a)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // it has all its receives
		}
		p.rejected(p.host("192.0.2.1"), a, RefusedMemory)
		if n := p.info("a").Refusals[RefusedMemory]; n != 1 {
			t.Errorf("refused for memory: %d of %d", n, p.info("a").Refused)
		}
		time.Sleep(connlimit.FairGrace)
		for range room / 2 {
			c, err := p.open(p.host("192.0.2.1"), a, rpcrdma.DialConfig{MemoryLimit: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for down, up := false, false; !down || !up; { // in either order
				e := <-p.events.Events()
				down, up = down || e.Type == ConnDown, up || e.Type == ConnUp
			}
			if err := null(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		p.rejected(p.host("192.0.2.1"), a, RefusedMemory) // it has as many as the other, which were idle for less than Grace
		if got := p.info("a").Evictions[connlimit.Total]; got != uint64(room/2) {
			t.Errorf("%d of %d evicted", got, room)
		}
	})
}

// TestSilentAndIdleConnectionsAge: a connection without a call is closed after a time; an
// idle connection only if an idle time is set.
func TestSilentAndIdleConnectionsAge(t *testing.T) {
	p := newPlane(t, Config{})
	a := p.listenWith("a", Limits{}, Access{})
	p.Start()
	idle := p.connect(p.host("192.0.2.1"), a)
	if err := null(t.Context(), idle); err != nil {
		t.Fatal(err)
	}
	p.connect(p.host("192.0.2.2"), a)
	places := p.listeners["a"].places
	places.Age(time.Now().Add(halfOpenTime))
	if down := p.next(ConnDown); down.Conn.ConnKey.Peer.String() != "192.0.2.2" || down.Reason != "nothing came since it was accepted" {
		t.Errorf("down: %v, %s", down.Conn.ConnKey.Peer, down.Reason)
	}
	if err := null(t.Context(), idle); err != nil {
		t.Errorf("idle for %v: %v", halfOpenTime, err)
	}
	if err := p.listener("a").Update(Limits{Idle: time.Minute}, Access{}); err != nil {
		t.Fatal(err)
	}
	places.Age(time.Now().Add(time.Minute))
	if down := p.next(ConnDown); down.Conn.ConnKey.Peer.String() != "192.0.2.1" || down.Reason != "idle for too long" {
		t.Errorf("down: %v, %s", down.Conn.ConnKey.Peer, down.Reason)
	}
}

// TestOnePeerLeavesRoomForOthers: by default, a peer that opens as many connections as
// it can gets a part of the places.
func TestOnePeerLeavesRoomForOthers(t *testing.T) {
	l := Limits{}.withDefaults(planeDefaults)
	if l.ConnectionsPerPeer <= 0 || l.ConnectionsPerPeer > l.Connections/8 {
		t.Errorf("%d of %d connections may be one peer's", l.ConnectionsPerPeer, l.Connections)
	}
}

// slowOpener is a service whose connections of one host take until their context ends.
type slowOpener struct {
	opener
	slow    netip.Addr
	waiting chan struct{} // gets one for each of them
	over    atomic.Int32  // those that ended
}

func (o *slowOpener) OpenConn(ctx context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	if peer.Addr() != o.slow {
		return o.opener.OpenConn(ctx, peer)
	}
	o.waiting <- struct{}{}
	<-ctx.Done()
	o.over.Add(1)
	return nil, ctx.Err()
}

// TestHandshakeEndsForNewcomer: a newcomer that takes the place of a connection in its
// handshake comes up once that handshake has ended, which is at once.
func TestHandshakeEndsForNewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, Config{HandshakeTimeout: time.Hour})
		o := &slowOpener{slow: netip.MustParseAddr("192.0.2.66"), waiting: make(chan struct{})}
		added, err := p.add(ListenerConfig{Name: "a", Provider: p.judged, Address: "127.0.0.1:0", Service: "slow", Handler: o, Limits: Limits{Connections: 2}})
		if err != nil {
			t.Fatal(err)
		}
		p.Start()
		addr, slow := added.Info().Address.String(), p.host("192.0.2.66")
		var dials sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		for range 2 {
			dials.Go(func() {
				if c, err := rpcrdma.Dial(ctx, slow, addr, rpcrdma.DialConfig{}); err == nil {
					c.Close()
					t.Error("a slow connection came up")
				}
			})
			<-o.waiting
		}
		time.Sleep(connlimit.FairGrace)
		start := time.Now()
		p.connect(p.host("192.0.2.1"), addr)
		if n := o.over.Load(); n != 1 || !time.Now().Equal(start) {
			t.Errorf("the newcomer came up after %v, and %d handshakes ended", time.Since(start), n)
		}
		leave()
		dials.Wait()
	})
}

// TestEvictedAtItsEnd: a connection may lose its place while it ends, even if that is right after it
// came up.
func TestEvictedAtItsEnd(t *testing.T) {
	p := newPlane(t, Config{})
	a := p.listen("a", echo.New())
	p.Start()
	client, up := p.dial(a, nil)
	c, err := p.find(up.ID)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	<-c.gone
	c.lose("its place was needed")
}

// TestNewcomerGivesUp: a newcomer waits for the memory of the connection that it evicts no longer than
// a handshake may take. The calls of that one may hang.
func TestNewcomerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, Config{})
		address := p.listen("a", echo.New())
		l := p.listener("a")
		dialed := make(chan error, 1)
		go func() {
			_, err := rpcrdma.Dial(t.Context(), p.judged, address, rpcrdma.DialConfig{})
			dialed <- err
		}()
		req, err := l.rl.Accept(t.Context()) // the plane is not started
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.admit(req)
		if err != nil {
			t.Fatal(err)
		}
		evicted := l.newConn()
		evicted.l, evicted.giveUp, evicted.settled = l, func() {}, make(chan struct{})
		evicted.Evict(connlimit.Eviction{By: c})
		if err := l.handshake(req, c); err == nil {
			t.Error("the newcomer came up")
		}
		l.LeaveHandshake()
		c.settle()
		close(evicted.settled)
		if err := <-dialed; err == nil {
			t.Error("the client connected")
		}
	})
}
