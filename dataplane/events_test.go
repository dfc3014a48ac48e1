package dataplane

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
)

func TestSlowSubscriberIsDropped(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	slow := p.Subscribe(2)
	closed := p.Subscribe(0)
	closed.Close()
	closed.Close()
	for range 4 {
		p.dial(addr, nil) // waits for the other subscriber to be told
	}
	var got []string
	for e := range slow.Events() {
		got = append(got, e.Conn.ID)
	}
	if len(got) != 2 || got[0] != "1" || got[1] != "2" {
		t.Errorf("the slow one got %v", got)
	}
	if !errors.Is(slow.Err(), ErrSlow) {
		t.Errorf("it ended with %v", slow.Err())
	}
	slow.Close()
	if _, ok := <-closed.Events(); ok || closed.Err() != nil {
		t.Errorf("the closed one: %v", closed.Err())
	}
}

func TestEventsTellWhatChanged(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	c, up := p.dial(addr, nil)
	p.ApplySettings(Update{Resolve: resolver(func(s *rpcrdma.Settings) { s.CreditsMax = 5 })}, nil)
	changed := p.next(ConnChanged)
	if changed.Conn.ConnKey != up.ConnKey || changed.Conn.Settings.CreditsMax != 5 || changed.Time.IsZero() {
		t.Errorf("changed: %+v", changed)
	}
	c.Close()
	if down := p.next(ConnDown); down.Conn.ConnKey != up.ConnKey || down.Time.Before(changed.Time) {
		t.Errorf("down: %+v", down)
	}
}

// Only subscriptions that want changes get them. They cost nothing while no subscription does.
func TestChangesAreWanted(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	p.dial(addr, nil)
	some := p.Subscribe(8)
	some.Changes(false)
	some.Changes(false)
	p.events.Changes(false)
	change := func(size uint32) {
		p.ApplySettings(Update{Resolve: resolver(func(s *rpcrdma.Settings) { s.InlineSendMax = size })}, nil)
	}
	if n := p.subs.wanted.Load(); n != 0 {
		t.Errorf("%d want changes", n)
	}
	change(1024)
	p.events.Changes(true)
	change(2048)
	if e := p.next(ConnChanged); e.Conn.Settings.InlineSendMax != 2048 {
		t.Errorf("told of %+v", e.Conn.Settings)
	}
	p.dial(addr, nil)
	if e := <-some.Events(); e.Type != ConnUp || e.Conn.ID != "2" {
		t.Errorf("who wants no changes was told of %+v", e)
	}
	some.Changes(true)
	some.Close()
	some.Changes(true) // of no effect any more
	if n := p.subs.wanted.Load(); n != 1 {
		t.Errorf("%d want changes", n)
	}
}
