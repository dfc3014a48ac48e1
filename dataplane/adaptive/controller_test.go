package adaptive

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/credit"
)

// obey moves limits the way that answers do: up at once, down by one for each.
func obey(c *Conn) {
	if c.Target >= c.Limit {
		c.Limit = c.Target
	} else {
		c.Limit = max(c.Target, c.Limit-c.Answered)
	}
}

func busy(g *Group, weight, least, most int) *Conn {
	return &Conn{Group: g, Weight: weight, Min: least, Max: most, Cost: 100, Rest: 100, Limit: credit.Initial}
}

// TestStepInvariants: over random loads, settings that change, delays and
// budgets, targets keep within the bounds and never rise into memory that is
// not free.
func TestStepInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := []*Group{new(Group), new(Group)}
		var conns []*Conn
		for range rapid.IntRange(1, 20).Draw(t, "connections") {
			conns = append(conns, busy(groups[rapid.IntRange(0, 1).Draw(t, "group")], rapid.IntRange(0, 9).Draw(t, "weight"), 1, 64))
		}
		var k Controller
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			budget := rapid.Int64Range(0, 150_000).Draw(t, "budget")
			before := int64(0)
			for _, c := range conns {
				if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
					c.Min, c.Max = rapid.IntRange(0, 70).Draw(t, "min"), rapid.IntRange(0, 70).Draw(t, "max")
				}
				c.Answered = rapid.IntRange(0, 40).Draw(t, "answered")
				c.Peak = rapid.IntRange(0, c.Limit).Draw(t, "peak")
				before += int64(max(c.Limit, c.Target)) * c.Cost
			}
			for _, g := range groups {
				g.Observe(10, time.Duration(rapid.IntRange(0, 1000).Draw(t, "delay"))*time.Millisecond)
			}
			k.Step(conns, groups, budget)
			after := int64(0)
			for _, c := range conns {
				if c.Target < 1 || c.Target > max(c.Max, 1) {
					t.Fatalf("target %d of at most %d", c.Target, c.Max)
				}
				after += int64(max(c.Limit, c.Target)) * c.Cost
				obey(c)
			}
			if after > max(budget, before) {
				t.Fatalf("%d bytes after %d, budget %d", after, before, budget)
			}
		}
	})
}

// run steps with everybody using all that it has, and gives the number of
// steps in which a target changed in the last half.
func run(k *Controller, conns []*Conn, groups []*Group, budget int64, steps int) (restless int) {
	for i := range steps {
		changed := false
		for _, c := range conns {
			c.Peak, c.Answered = c.Limit, 10*c.Limit
		}
		before := make([]int, len(conns))
		for j, c := range conns {
			before[j] = c.Target
		}
		k.Step(conns, groups, budget)
		for j, c := range conns {
			changed = changed || c.Target != before[j]
			obey(c)
		}
		if changed && i >= steps/2 {
			restless++
		}
	}
	return restless
}

// TestSteady: with steady load targets come to rest, at what max-min fairness
// says, and at the minimum at least.
func TestSteady(t *testing.T) {
	for _, c := range []struct {
		what   string
		budget int64
		want   [3]int // weights 1, 2, 4; minima 1, 10, 1; most 64
	}{
		{"plenty", 100_000, [3]int{64, 64, 64}},
		{"one is satisfied", 12_000, [3]int{18, 37, 64}},
		{"by weight", 7_000, [3]int{10, 20, 40}},
		{"one at its minimum", 2_000, [3]int{2, 10, 8}},
		{"the minima just fit", 1_200, [3]int{1, 10, 1}},
		{"the minima do not fit", 700, [3]int{1, 5, 1}},
		{"not even one each", 0, [3]int{1, 1, 1}},
	} {
		g := new(Group)
		conns := []*Conn{busy(g, 1, 1, 64), busy(g, 2, 10, 64), busy(g, 4, 1, 64)}
		var k Controller
		if n := run(&k, conns, []*Group{g}, c.budget, 40); n != 0 {
			t.Errorf("%s: targets changed in %d steps of steady load", c.what, n)
		}
		for i, n := range c.want {
			// A rise by less than 1/16 is not made.
			if got := conns[i].Target; got > n || got < n-max(n/16, 1) || (n == conns[i].Min && got != n) {
				t.Errorf("%s: weight %d has %d, want %d", c.what, conns[i].Weight, got, n)
			}
		}
	}
}

// TestNoFlapping: targets do not follow loads that go up and down within the
// bounds of demand, nor delays between the thresholds.
func TestNoFlapping(t *testing.T) {
	g := new(Group)
	c := busy(g, 1, 1, 64)
	var k Controller
	run(&k, []*Conn{c}, []*Group{g}, 100_000, 20)
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		c.Peak, c.Answered = 16+r.IntN(49), 100
		g.Observe(100, 100*(Low+time.Duration(r.Int64N(int64(High-Low)))))
		k.Step([]*Conn{c}, []*Group{g}, 100_000)
		if c.Target != 64 {
			t.Fatalf("target %d", c.Target)
		}
		obey(c)
	}
}

// TestSmallRise: a rise by less than a sixteenth waits for more.
func TestSmallRise(t *testing.T) {
	g := new(Group)
	c := busy(g, 1, 1, 1000)
	var k Controller
	for _, step := range []struct {
		budget int64
		want   int
	}{{3200, 32}, {3300, 32}, {3400, 34}, {3300, 33}} {
		run(&k, []*Conn{c}, []*Group{g}, step.budget, 20)
		if c.Target != step.want {
			t.Errorf("budget %d: target %d, want %d", step.budget, c.Target, step.want)
		}
	}
}

// TestDemandFalls: who hardly uses its credits loses them after a while, down
// to what every connection begins with.
func TestDemandFalls(t *testing.T) {
	g := new(Group)
	c := busy(g, 1, 1, 64)
	var k Controller
	run(&k, []*Conn{c}, []*Group{g}, 100_000, 20)
	for i := range 2 * Patience {
		c.Peak, c.Answered = 2, 100
		k.Step([]*Conn{c}, []*Group{g}, 100_000)
		if want := map[bool]int{true: 64, false: credit.Initial}[i+1 < Patience]; c.Target != want {
			t.Fatalf("step %d: target %d, want %d", i, c.Target, want)
		}
		obey(c)
	}
}

// TestPinned: a silent connection keeps what it was granted, and the others
// share what that leaves.
func TestPinned(t *testing.T) {
	g := new(Group)
	silent, other := busy(g, 1, 1, 64), busy(g, 1, 1, 64)
	var k Controller
	groups := []*Group{g}
	run(&k, []*Conn{silent}, groups, 10_000, 20)
	for range 3 * Patience {
		silent.Peak, silent.Answered = 0, 0
		other.Peak, other.Answered = other.Limit, 100
		k.Step([]*Conn{silent, other}, groups, 10_000)
		obey(silent)
		obey(other)
	}
	if silent.Limit != 64 || silent.Target != credit.Initial || other.Target > 36 || other.Target < 34 {
		t.Errorf("silent: limit %d, target %d; other: %d", silent.Limit, silent.Target, other.Target)
	}
}

// TestIdleRest: of a silent connection only the receives count, unless it has calls in progress.
func TestIdleRest(t *testing.T) {
	for inProgress, want := range map[int]int{0: 48, 1: 36} {
		g := new(Group)
		silent, other := busy(g, 1, 1, 64), busy(g, 1, 1, 64)
		silent.Rest = 80
		var k Controller
		groups := []*Group{g}
		run(&k, []*Conn{silent}, groups, 10_000, 20)
		for range 3 * Patience {
			silent.Peak, silent.Answered = inProgress, 0
			other.Peak, other.Answered = other.Limit, 100
			k.Step([]*Conn{silent, other}, groups, 10_000)
			obey(silent)
			obey(other)
		}
		if other.Target > want || other.Target < want-want/16 {
			t.Errorf("beside 64 credits with %d calls in progress: %d, want %d", inProgress, other.Target, want)
		}
	}
}

// TestStepAllocs: steps of many connections leave nothing to collect.
func TestStepAllocs(t *testing.T) {
	g := new(Group)
	groups := []*Group{g}
	var conns []*Conn
	for i := range 1000 {
		conns = append(conns, busy(g, 1+i%4, 1, 64))
	}
	var k Controller
	run(&k, conns, groups, 1_000_000, 10)
	if n := testing.AllocsPerRun(10, func() { k.Step(conns, groups, 1_000_000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkStep1000(b *testing.B) {
	g := new(Group)
	groups := []*Group{g}
	var conns []*Conn
	for i := range 1000 {
		conns = append(conns, busy(g, 1+i%4, 1, 64))
	}
	var k Controller
	for b.Loop() {
		k.Step(conns, groups, 1_000_000)
	}
}
