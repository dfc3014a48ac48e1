package adaptive

import (
	"testing"
	"time"
)

// TestPressure: the level falls while calls wait, as far as the minima, weight
// by weight; it stays between the thresholds, and goes away in the end.
func TestPressure(t *testing.T) {
	g := new(Group)
	groups := []*Group{g}
	conns := []*Conn{busy(g, 1, 2, 64), busy(g, 3, 2, 64)}
	var k Controller
	const budget = 1_000_000
	step := func(delay time.Duration, n int) {
		for range n {
			g.Observe(1, delay)
			run(&k, conns, groups, budget, 1)
		}
	}
	step(0, 20)
	if conns[0].Target != 64 || conns[1].Target != 64 || g.level != 0 {
		t.Fatalf("without pressure: %d and %d", conns[0].Target, conns[1].Target)
	}
	step(2*High, 60)
	a, b := conns[0].Target, conns[1].Target
	if a >= 32 || b > 3*a+3 || b < 3*a-3 {
		t.Errorf("under pressure: %d and %d, want 1:3", a, b)
	}
	step((High+Low)/2, 10) // the smoothed delay settles
	a, b = conns[0].Target, conns[1].Target
	step((High+Low)/2, 200)
	if conns[0].Target != a || conns[1].Target != b {
		t.Errorf("between the thresholds: %d and %d, before %d and %d", conns[0].Target, conns[1].Target, a, b)
	}
	step(10*High, 1000)
	if conns[0].Target != 2 || conns[1].Target != 2 {
		t.Errorf("for ever: %d and %d", conns[0].Target, conns[1].Target)
	}
	step(0, 1000)
	if conns[0].Target != 64 || conns[1].Target != 64 || g.level != 0 {
		t.Errorf("in the end: %d and %d, level %v", conns[0].Target, conns[1].Target, g.level)
	}
}

// TestPressureAwaitsEffect: while grants have not come down since the last cut
// there is no other, for a while.
func TestPressureAwaitsEffect(t *testing.T) {
	g := new(Group)
	c := busy(g, 1, 1, 64)
	var k Controller
	run(&k, []*Conn{c}, []*Group{g}, 1_000_000, 20)
	cuts := 0
	for range maxLate {
		g.Observe(1, time.Second)
		before := c.Target
		c.Peak, c.Answered = 64, 1 // but the limit stays
		k.Step([]*Conn{c}, []*Group{g}, 1_000_000)
		if c.Target < before {
			cuts++
		}
	}
	if cuts != 1 {
		t.Errorf("%d cuts before the first took effect", cuts)
	}
}

// TestPressureAlone: one group's delay is nothing to another.
func TestPressureAlone(t *testing.T) {
	slow, quick := new(Group), new(Group)
	conns := []*Conn{busy(slow, 1, 1, 64), busy(quick, 1, 1, 64)}
	var k Controller
	for range 60 {
		slow.Observe(1, time.Second)
		quick.Observe(1, time.Millisecond)
		run(&k, conns, []*Group{slow, quick}, 1_000_000, 1)
	}
	if conns[0].Target > 8 || conns[1].Target != 64 {
		t.Errorf("%d and %d", conns[0].Target, conns[1].Target)
	}
}

// TestObserve: no calls, no delay, before long.
func TestObserve(t *testing.T) {
	g := new(Group)
	for range 30 {
		g.Observe(4, 4*time.Second)
	}
	if g.Delay < 999*time.Millisecond || g.Delay > time.Second {
		t.Errorf("delay %v", g.Delay)
	}
	for range 20 {
		g.Observe(0, 0)
	}
	if g.Delay > Low {
		t.Errorf("idle: %v", g.Delay)
	}
}
