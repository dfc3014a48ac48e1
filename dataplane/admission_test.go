package dataplane

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// host gives a provider at an address on the plane's network.
func (p *plane) host(address string) *loopback.Provider {
	p.t.Helper()
	h := loopback.New(loopback.Config{Fabric: p.p.Fabric(), Host: netip.MustParseAddr(address)})
	p.t.Cleanup(func() {
		if err := h.Close(); err != nil {
			p.t.Errorf("provider of %s: %v", address, err)
		}
	})
	return h
}

// listenWith adds a listener of the echo service and gives its address.
func (p *plane) listenWith(name string, l Limits, a Access) string {
	p.t.Helper()
	added, err := p.add(ListenerConfig{
		Name: name, Provider: p.judged, Address: "127.0.0.1:0", Service: "echo", Handler: echo.New(), Limits: l, Access: a,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return added.Info().Address.String()
}

// connect dials from a host and waits until the plane has seen it.
func (p *plane) connect(from rdmacm.Provider, address string) *rpcrdma.Client {
	p.t.Helper()
	c, err := p.open(refereetest.Around(p.t, from), address, rpcrdma.DialConfig{MemoryLimit: 1 << 20})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	p.next(ConnUp)
	return c
}

// rejected dials from a host, which must be rejected and told why.
func (p *plane) rejected(from rdmacm.Provider, address string, why Refusal) {
	p.t.Helper()
	c, err := p.open(refereetest.Around(p.t, from), address, rpcrdma.DialConfig{MemoryLimit: 1 << 20})
	if err == nil {
		c.Close()
	}
	var no *rdmacm.RejectedError
	if !errors.As(err, &no) || no.Reason() != refusalWords[why] {
		p.t.Errorf("connecting to %s: %v, want %q", address, err, refusalWords[why])
	}
}

func (p *plane) info(name string) ListenerInfo {
	for _, l := range p.Listeners() {
		if l.Name == name {
			return l
		}
	}
	return ListenerInfo{}
}

// TestLimits takes no time, so that no connection is idle long enough to go.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, Config{Limits: Limits{Connections: 5, ConnectionsPerPeer: 3}})
		a := p.listenWith("a", Limits{Connections: 3, ConnectionsPerPeer: 2}, Access{})
		b := p.listenWith("b", Limits{}, Access{})
		p.Start()
		one, two, three := p.host("192.0.2.1"), p.host("192.0.2.2"), p.host("192.0.2.3")
		first := p.connect(one, a)
		p.connect(one, a)
		p.rejected(one, a, RefusedPerPeer) // the listener's limit of a peer
		p.connect(one, b)
		p.rejected(one, b, RefusedPerPeer) // the limit of a peer
		p.connect(two, a)
		p.rejected(two, a, RefusedConnections) // the listener's limit
		p.connect(two, b)
		p.rejected(three, b, RefusedConnections) // the limit
		if got, want := p.info("a").Refusals, (Refusals{RefusedPerPeer: 1, RefusedConnections: 1}); got != want {
			t.Errorf("a refused %v, want %v", got, want)
		}
		if got, want := p.info("b").Refusals, (Refusals{RefusedPerPeer: 1, RefusedConnections: 1}); got != want {
			t.Errorf("b refused %v, want %v", got, want)
		}
		for i, want := range []string{
			`listener=a peer=192.0.2.1:0 reason="all 2 connections of listener a allowed to 192.0.2.1 are in use"`,
			`listener=b peer=192.0.2.1:0 reason="all 3 connections allowed to 192.0.2.1 are in use"`,
			`listener=a peer=192.0.2.2:0 reason="all 3 connections of listener a are in use"`,
			`listener=b peer=192.0.2.3:0 reason="all 5 connections are in use"`,
		} {
			if line := portless(p.log.Lines("refused")[i]); !strings.Contains(line, want) {
				t.Errorf("line %d is %s, want %s", i, line, want)
			}
		}
		first.Close()
		p.next(ConnDown)
		p.connect(three, b)
		p.SetLimits(Limits{Connections: 6})
		p.connect(one, b) // a peer may have the default number now
		p.rejected(one, b, RefusedConnections)
		if want := (Limits{Connections: 6, ConnectionsPerPeer: DefaultConnectionsPerPeer, Handshakes: DefaultMaxHandshakes}); p.Limits() != want {
			t.Errorf("limits %+v", p.Limits())
		}
		if s := p.places.Stats(); s.Keys != 3 || s.Held != 6 {
			t.Errorf("counted %+v", s)
		}
		p.Shutdown(t.Context())
		if s := p.places.Stats(); s.Keys != 0 || s.Held != 0 {
			t.Errorf("counted at the end: %+v", s)
		}
	})
}

// portless makes a line of the log independent of the port that a peer had.
func portless(line string) string {
	before, after, _ := strings.Cut(line, "peer=")
	addr, rest, _ := strings.Cut(after, " ")
	host, _, _ := strings.Cut(addr, ":")
	return before + "peer=" + host + ":0 " + rest
}

func TestLimitsChangeLive(t *testing.T) {
	p := newPlane(t, Config{})
	a := p.listenWith("a", Limits{Connections: 1}, Access{})
	p.Start()
	c := p.connect(p.p, a)
	p.rejected(p.p, a, RefusedConnections)
	if err := p.listener("a").Update(Limits{Connections: 3, Handshakes: 7}, Access{}); err != nil {
		t.Fatal(err)
	}
	if got := p.info("a").Limits; got != (Limits{Connections: 3, Handshakes: 7}) {
		t.Errorf("limits %+v", got)
	}
	p.connect(p.p, a)
	p.connect(p.p, a)
	p.rejected(p.p, a, RefusedConnections)
	// Lowered below what is up: those stay.
	if err := p.listener("a").Update(Limits{Connections: 1}, Access{}); err != nil {
		t.Fatal(err)
	}
	if err := null(t.Context(), c); err != nil || len(p.Connections()) != 3 {
		t.Errorf("%d are up, a call: %v", len(p.Connections()), err)
	}
	p.rejected(p.p, a, RefusedConnections)
}

func TestBadAccess(t *testing.T) {
	p := newPlane(t, Config{})
	p.listenWith("a", Limits{Connections: 9}, Access{Deny: prefixes(t, "192.0.2.1")})
	before := p.info("a")
	var access *AccessError
	bad := []netip.Prefix{{}}
	if _, err := p.add(ListenerConfig{Name: "b", Provider: p.judged, Address: "127.0.0.1:0", Access: Access{Allow: bad}}); !errors.As(err, &access) {
		t.Errorf("a new listener: %v", err)
	}
	if err := p.listener("a").Update(Limits{}, Access{Deny: bad}); !errors.As(err, &access) || access.List != "deny" {
		t.Errorf("Update: %v", err)
	}
	if now := p.info("a"); now.Limits != before.Limits || len(now.Access.Deny) != 1 || len(p.Listeners()) != 1 {
		t.Errorf("a refused change changed %+v", now)
	}
}

func TestAccessChangesLive(t *testing.T) {
	p := newPlane(t, Config{})
	a := p.listenWith("a", Limits{}, Access{Allow: prefixes(t, "192.0.2.0/24")})
	p.Start()
	one, two, other := p.host("192.0.2.1"), p.host("192.0.2.2"), p.host("198.51.100.1")
	c1, c2 := p.connect(one, a), p.connect(two, a)
	p.rejected(other, a, RefusedDenied)
	access := Access{Allow: prefixes(t, "192.0.2.0/24"), Deny: prefixes(t, "192.0.2.1")}
	if err := p.listener("a").Update(Limits{}, access); err != nil {
		t.Fatal(err)
	}
	if err := null(t.Context(), c1); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	p.rejected(one, a, RefusedDenied)
	if n := p.listener("a").EndDenied(); n != 1 {
		t.Errorf("%d ended", n)
	}
	if down := p.next(ConnDown); down.Conn.ConnKey.Peer != netip.MustParseAddr("192.0.2.1") || down.Reason != reasonDenied {
		t.Errorf("down: %v, %s", down.Conn.ConnKey.Peer, down.Reason)
	}
	<-c1.Done()
	if err := null(t.Context(), c2); err != nil {
		t.Errorf("another peer's connection: %v", err)
	}
	access.Allow = nil
	if err := p.listener("a").Update(Limits{}, access); err != nil {
		t.Fatal(err)
	}
	p.connect(other, a)
	p.rejected(one, a, RefusedDenied)
	if got := p.info("a").Refusals; got != (Refusals{RefusedDenied: 3}) {
		t.Errorf("refused %v", got)
	}
}

// TestDeniedPeersCostNothing: a denied peer gets no id, no memory and no place.
func TestDeniedPeersCostNothing(t *testing.T) {
	p := newPlane(t, Config{})
	a := p.listenWith("a", Limits{}, Access{Deny: prefixes(t, "192.0.2.1")})
	p.Start()
	one := p.host("192.0.2.1")
	for range 100 {
		p.rejected(one, a, RefusedDenied)
	}
	l := p.listeners["a"]
	made, _ := l.handshakes.Used()
	if m := l.rl.Memory(); m.Registered != 0 || p.lastID != 0 || p.places.Stats().Held != 0 || l.places.Stats().Keys != 0 || made != 0 {
		t.Errorf("memory %+v, last id %d, counted %+v", m, p.lastID, p.places.Stats())
	}
	if got := p.info("a").Refusals; got != (Refusals{RefusedDenied: 100}) {
		t.Errorf("refused %v", got)
	}
}

// TestFloodOfOnePeer has a peer ask for 1,000 connections over its limit, many
// at a time, while another makes calls on one connection and opens others.
func TestFloodOfOnePeer(t *testing.T) {
	const limit, flood, workers = 3, 1000, 16
	p := newPlane(t, Config{})
	a := p.listenWith("a", Limits{ConnectionsPerPeer: limit}, Access{})
	p.Start()
	bad, good := p.host("192.0.2.1"), p.host("192.0.2.2")
	for range limit {
		p.connect(bad, a)
	}
	c := p.connect(good, a)
	for _, c := range p.snapshot() {
		c.place.Touch(time.Now().Add(time.Hour)) // nobody's is idle however long this takes
	}
	var wg sync.WaitGroup
	work := make(chan struct{}, flood)
	for range flood {
		work <- struct{}{}
	}
	close(work)
	for range workers {
		wg.Go(func() {
			for range work {
				p.rejected(bad, a, RefusedPerPeer)
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	calls, failed := 0, 0
	for going := true; going; {
		select {
		case <-over:
			going = false
		default:
		}
		if err := null(t.Context(), c); err != nil {
			failed++
		}
		calls++
		if calls%500 == 0 {
			if err := p.comeAndGo(refereetest.Around(t, good), a); err != nil {
				t.Errorf("a new connection of the other peer: %v", err)
				continue
			}
			p.next(ConnUp)
			p.next(ConnDown) // its place is free again
		}
	}
	if failed != 0 || calls == 0 {
		t.Errorf("%d of the other peer's %d calls failed", failed, calls)
	}
	l := p.info("a")
	if l.Refusals != (Refusals{RefusedPerPeer: flood}) {
		t.Errorf("refused %v", l.Refusals)
	}
	if n := len(p.log.Lines("connection refused")); n > 20 {
		t.Errorf("%d lines of the log for %d refusals", n, flood)
	}
	for _, c := range p.Connections() {
		if c.Stats.Errors != 0 {
			t.Errorf("connection %s had %d errors", c.ID, c.Stats.Errors)
		}
	}
}

// comeAndGo opens a connection, makes a call and closes it.
func (p *plane) comeAndGo(from rdmacm.Provider, address string) error {
	c, err := p.open(from, address, rpcrdma.DialConfig{MemoryLimit: 1 << 20})
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	return errors.Join(null(p.t.Context(), c), c.Close())
}
