package dataplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

func TestConnectionsComeAndGo(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	c, up := p.dial(addr, nil)
	if up.ID != "1" || up.Listener != "a" || up.Service != "echo" || up.Provider != "loopback" || up.State != StateUp {
		t.Errorf("came up as %+v", up)
	}
	if up.PeerPort != c.Info().Local || up.ConnKey.Peer != c.Info().Local.Addr() {
		t.Errorf("peer %v, want %v", up.PeerPort, c.Info().Local)
	}
	for range 3 {
		if err := null(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	got, err := p.Connection("1")
	if err != nil || got.Stats.Calls != 3 || got.Stats.Replies != 3 || *got.Settings != rpcrdma.DefaultSettings() {
		t.Errorf("%+v, %v", got, err)
	}
	if l := p.Listeners(); len(l) != 1 || l[0].Connections != 1 || l[0].Accepted != 1 || l[0].Refused != 0 {
		t.Errorf("listeners %+v", l)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	down := p.next(ConnDown)
	if down.Conn.ID != "1" || down.Conn.Stats.Calls != 3 || down.Reason == "" {
		t.Errorf("went down as %+v", down)
	}
	if _, err := p.Connection("1"); !errors.Is(err, ErrNotFound) || err.Error() != "connection 1: not found" {
		t.Errorf("error %v for one that is gone", err)
	}
	if all := p.Connections(); len(all) != 0 {
		t.Errorf("still there: %+v", all)
	}
	s := p.Stats()
	if len(s) != 1 || s[0].Connections != 0 || s[0].Totals.Calls != 3 || s[0].ServiceTime.Count != 3 {
		t.Errorf("totals after the end %+v", s[0].ListenerInfo)
	}
	if _, again := p.dial(addr, nil); again.ID != "2" {
		t.Errorf("the next id is %s", again.ID)
	}
}

func TestOneLineUpOneLineDown(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	c, up := p.dial(addr, nil)
	c.Close()
	p.next(ConnDown)
	lines := p.log.Lines("")
	if len(lines) != 2 || !strings.Contains(lines[0], `msg="connection up" conn=1 listener=a peer=`+up.PeerPort.String()) ||
		!strings.Contains(lines[1], `msg="connection down" conn=1 listener=a peer=`+up.PeerPort.String()+" reason=") {
		t.Errorf("log:\n%s", strings.Join(lines, ""))
	}
}

func TestNobodyIsServedBeforeStart(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	connected := make(chan error, 1)
	go func() {
		c, err := p.open(p.judged, addr, rpcrdma.DialConfig{})
		if err == nil {
			c.Close()
		}
		connected <- err
	}()
	if l := p.Listeners(); l[0].Accepted != 0 {
		t.Errorf("accepted %d before the start", l[0].Accepted)
	}
	p.Start()
	p.Start() // has no effect
	if err := <-connected; err != nil {
		t.Error(err)
	}
	p.next(ConnUp)
	p.next(ConnDown)
}

func TestListenersAddedWhileRunning(t *testing.T) {
	p := newPlane(t, Config{})
	p.Start()
	a, b := p.listen("a", echo.New()), p.listen("b", echo.New())
	if _, err := p.add(ListenerConfig{Name: "c", Provider: p.judged, Address: a}); err == nil {
		t.Error("a second one on the address")
	}
	ca, _ := p.dial(a, nil)
	cb, _ := p.dial(b, nil)
	if r := p.listener("a").Remove(t.Context()); r != (Removed{Drained: 1}) {
		t.Errorf("removed: %+v", r)
	}
	if e := p.next(ConnDown); e.Conn.Listener != "a" {
		t.Errorf("down: %+v", e.Conn.ConnKey)
	}
	<-ca.Done()
	if err := null(t.Context(), cb); err != nil {
		t.Errorf("the other listener's connection: %v", err)
	}
	if l := p.Listeners(); len(l) != 1 || l[0].Name != "b" {
		t.Errorf("left: %+v", l)
	}
	if addr := p.listen("a", echo.New()); addr == "" {
		t.Error("the name is not free again")
	}
}

func TestConnectionLimit(t *testing.T) {
	p := newPlane(t, Config{Limits: Limits{Connections: 2}})
	addr := p.listen("a", echo.New())
	p.Start()
	first, _ := p.dial(addr, nil)
	p.dial(addr, nil)
	_, err := p.open(p.judged, addr, rpcrdma.DialConfig{})
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) {
		t.Errorf("a third one: %v", err)
	}
	first.Close()
	p.next(ConnDown)
	if _, up := p.dial(addr, nil); up.ID != "3" {
		t.Errorf("with one gone: id %s", up.ID)
	}
	if l := p.Listeners()[0]; l.Refused != 1 || l.Accepted != 3 || l.Connections != 2 {
		t.Errorf("listener %+v", l)
	}
	if lines := p.log.Lines("refused"); len(lines) != 1 || !strings.Contains(lines[0], "all 2 connections are in use") {
		t.Errorf("log: %q", lines)
	}
}

func TestDrainFinishesCallsInFlight(t *testing.T) {
	p := newPlane(t, Config{})
	g := newGate()
	addr := p.listen("a", g)
	p.Start()
	c, up := p.dial(addr, nil)
	answered, drained := make(chan error, 1), make(chan error, 1)
	go func() { answered <- null(t.Context(), c) }()
	<-g.entered
	go func() { drained <- p.DrainConnection(t.Context(), up.ID) }()
	for { // until the drain is seen
		if info, err := p.Connection(up.ID); err != nil || info.State == StateDraining {
			break
		}
	}
	select {
	case err := <-drained:
		t.Fatalf("drained with a call in flight: %v", err)
	default:
	}
	close(g.open)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	<-c.Done()
	if e := p.next(ConnDown); e.Conn.State != StateDraining {
		t.Errorf("went down as %s", e.Conn.State)
	}
	if err := p.DrainConnection(t.Context(), up.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("drained twice: %v", err)
	}
}

func TestDrainGivesUpWithItsContext(t *testing.T) {
	p := newPlane(t, Config{})
	g := newGate()
	addr := p.listen("a", g)
	p.Start()
	c, up := p.dial(addr, nil)
	answered := make(chan error, 1)
	go func() { answered <- null(t.Context(), c) }()
	<-g.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.DrainConnection(ctx, up.ID)
	if !errors.Is(err, context.Canceled) || err.Error() != "connection 1 cut with calls in flight: context canceled" {
		t.Errorf("error %v", err)
	}
	<-g.ended
	if err := <-answered; err == nil {
		t.Error("the call was answered all the same")
	}
	p.next(ConnDown)
}

func TestCloseConnection(t *testing.T) {
	p := newPlane(t, Config{})
	g := newGate()
	addr := p.listen("a", g)
	p.Start()
	c, up := p.dial(addr, nil)
	answered := make(chan error, 1)
	go func() { answered <- null(t.Context(), c) }()
	<-g.entered
	if err := p.CloseConnection(up.ID); err != nil {
		t.Error(err)
	}
	<-g.ended
	if err := <-answered; err == nil {
		t.Error("answered")
	}
	p.next(ConnDown)
	if err := p.CloseConnection(up.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("closed twice: %v", err)
	}
}

func TestShutdownFinishesEverything(t *testing.T) {
	const conns = 20
	p := newPlane(t, Config{})
	g := newGate()
	addr := p.listen("a", g)
	p.Start()
	answered := make(chan error, conns)
	for range conns {
		c, _ := p.dial(addr, nil)
		go func() { answered <- null(t.Context(), c) }()
		<-g.entered
	}
	done := make(chan error, 1)
	go func() { done <- p.Shutdown(t.Context()) }()
	for len(p.Connections()) > 0 && p.Connections()[0].State != StateDraining {
	}
	close(g.open)
	for range conns {
		if err := <-answered; err != nil {
			t.Errorf("a call in flight: %v", err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := p.open(p.judged, addr, rpcrdma.DialConfig{}); !errors.Is(err, rdmacm.ErrUnreachable) {
		t.Errorf("connecting afterwards: %v", err)
	}
	if _, err := p.add(ListenerConfig{Name: "b", Provider: p.judged, Address: "127.0.0.1:0"}); !errors.Is(err, ErrShutdown) {
		t.Errorf("a listener afterwards: %v", err)
	}
	for range conns {
		p.next(ConnDown)
	}
	if _, more := <-p.events.Events(); more || !errors.Is(p.events.Err(), ErrShutdown) {
		t.Errorf("events go on: %v", p.events.Err())
	}
	if s := p.Subscribe(1); !errors.Is(s.Err(), ErrShutdown) {
		t.Errorf("subscribed afterwards: %v", s.Err())
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Errorf("a second shutdown: %v", err)
	}
}

func TestShutdownCutsAtTheDeadline(t *testing.T) {
	p := newPlane(t, Config{})
	g := newGate()
	addr := p.listen("a", g)
	p.Start()
	answered := make(chan error, 3)
	for i := range 3 {
		c, _ := p.dial(addr, nil)
		if i == 0 {
			continue // idle
		}
		go func() { answered <- null(t.Context(), c) }()
		<-g.entered
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("told to hurry"))
	err := p.Shutdown(ctx)
	if err == nil || !strings.HasSuffix(err.Error(), "connections cut with calls in flight: told to hurry") {
		t.Errorf("error %v", err)
	}
	for range 2 {
		<-g.ended
		if err := <-answered; err == nil {
			t.Error("answered")
		}
	}
}

func TestManyConnectionsAtOnce(t *testing.T) {
	const conns = 300
	p := newPlane(t, Config{Limits: Limits{Handshakes: 4, ConnectionsPerPeer: conns}})
	addr := p.listen("a", echo.New())
	p.Start()
	failed := make(chan error, conns)
	for range conns {
		go func() {
			c, err := p.open(p.judged, addr, rpcrdma.DialConfig{MemoryLimit: 1 << 20})
			if err == nil {
				err = errors.Join(null(t.Context(), c), c.Close())
			}
			failed <- err
		}()
	}
	for range conns {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		return // fewer events will come
	}
	ids := map[string]bool{}
	for downs := 0; downs < conns; {
		e := <-p.events.Events()
		if e.Type == ConnDown {
			downs++
		} else if ids[e.Conn.ID] {
			t.Errorf("id %s given twice", e.Conn.ID)
		}
		ids[e.Conn.ID] = true
	}
	if s := p.Stats()[0]; s.Totals.Calls != conns || s.Accepted != conns || s.Connections != 0 {
		t.Errorf("totals %+v of %+v", s.Totals, s.ListenerInfo)
	}
}

func TestConnectionsInOrder(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	for range 11 {
		p.dial(addr, nil)
	}
	for i, c := range p.Connections() {
		if want := fmt.Sprint(i + 1); c.ID != want {
			t.Errorf("connection %s at %s's place", c.ID, want)
		}
	}
}
