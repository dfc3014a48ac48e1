package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	one = Ref{"small", 1}
	two = Ref{"small", 2}
)

// slow is a node's load that is worse with small@2.
func slow(now []Ref) Load {
	if slices.Contains(now, two) {
		return Load{Calls: 100, P99: 9 * time.Millisecond}
	}
	return Load{Calls: 100, P99: 2 * time.Millisecond}
}

// A rollout goes by waves: first the canary, then as many as the plan says, each when the one
// before has baked.
func TestRolloutGoesByWaves(t *testing.T) {
	w, ref := begun(t, 20, quick())
	var seen []string
	for range 600 {
		if got := w.text(ref); len(seen) == 0 || seen[len(seen)-1] != got {
			seen = append(seen, got)
		}
		if w.rollouts[ref].Settled() {
			break
		}
		w.pass()
		for i := range w.rollouts[ref].Waves {
			if wave := &w.rollouts[ref].Waves[i]; i > 0 && wave.begun() && w.rollouts[ref].Waves[i-1].State != WaveDone {
				t.Fatalf("%s", w.text(ref))
			}
		}
	}
	var states []string
	for _, line := range seen {
		var b strings.Builder
		for _, word := range strings.Fields(line)[1:] {
			if state, _, ok := strings.Cut(word, "("); ok {
				b.WriteByte(state[0])
			}
		}
		states = append(states, b.String())
	}
	if got, want := strings.Join(states, " "), "PPPP APPP BPPP DAPP DBPP DDAP DDBP DDDA DDDB DDDD DDDD"; got != want {
		t.Errorf("waves went %s, want %s", got, want)
	}
	if got := w.rollouts[ref]; got.State != Done || len(got.Waves[0].Nodes) != 1 || len(got.Waves[1].Nodes) != 1 || len(got.Waves[2].Nodes) != 8 || len(got.Waves[3].Nodes) != 10 {
		t.Errorf("%s", w.text(ref))
	}
	if got := w.having(ref); len(got) != 20 {
		t.Errorf("on %v", got)
	}
	for name, b := range w.nodes {
		if !b.deadline.IsZero() {
			t.Errorf("%s waits for a confirmation", name)
		}
	}
}

// Each gate halts the rollout within its bound, and all nodes take the change back.
func TestGatesHalt(t *testing.T) {
	failed := func(now []Ref) []Condition {
		c := []Condition{{Kind: "service", Name: "old", Status: "FAILED", Reason: "Failed"}}
		if slices.Contains(now, two) {
			c = append(c, Condition{Kind: "listener", Name: "nfs", Status: "DEGRADED", Reason: "Unreachable", Message: "port 1 is DOWN"})
		}
		return c
	}
	for name, c := range map[string]struct {
		node func(*box)
		want string
	}{
		"p99": {func(b *box) { b.load = slow }, "n00: p99 is 9ms, 2ms before (max_p99_ratio is 2)"},
		"errors": {func(b *box) {
			b.load = func(now []Ref) Load {
				if slices.Contains(now, two) {
					return Load{Errors: 3.5}
				}
				return Load{Errors: 2}
			}
		}, "n00: 3.5 errors per second, 2.0 before (max_errors_per_second is 1 more)"},
		"conditions": {func(b *box) { b.conditions = failed }, "n00: condition listener/nfs is DEGRADED, Unreachable: port 1 is DOWN"},
		"unsupported": {func(b *box) {
			b.unsupported = func(now []Ref) uint32 { return uint32(len(now)) * uint32(min(1, slices.Index(now, two)+1)) }
		}, "the change is UNSUPPORTED on 1 connections (max_unsupported is 0)"},
		"refused": {func(b *box) {
			b.refuses = func(a []Ref) string {
				if slices.Contains(a, two) {
					return "no"
				}
				return ""
			}
		}, "n00: not applied: refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w, ref := begun(t, 5, quick())
			c.node(w.nodes["n00"])
			w.pass()
			r := w.until(t, ref)
			if r.State != RolledBack || r.Reason != c.want || r.Waves[0].State != WaveTakenBack {
				t.Errorf("%s: %s", w.text(ref), r.Reason)
			}
			if got := w.having(one); len(got) != 5 {
				t.Errorf("small@1 is on %v", got)
			}
			if r.Waves[1].State != WavePending {
				t.Errorf("%s", w.text(ref))
			}
			if got := w.list().Notable(); got[ref] == nil {
				t.Error("no condition")
			}

			allowed := quick()
			allowed.Gates = Gates{IgnoreConditions: true, MaxErrors: 2, MaxUnsupported: 5}
			if name == "refused" {
				return
			}
			w, ref = begun(t, 5, allowed)
			c.node(w.nodes["n00"])
			w.pass()
			if r := w.until(t, ref); r.State != Done {
				t.Errorf("within other bounds: %s: %s", w.text(ref), r.Reason)
			}
		})
	}
}

// One report that is worse may be chance; a condition that was there before is not the rollout's.
func TestGatesPass(t *testing.T) {
	w, ref := begun(t, 3, quick())
	w.nodes["n00"].conditions = func(now []Ref) []Condition {
		c := []Condition{{Kind: "service", Name: "old", Status: "FAILED", Reason: "Failed"}}
		if slices.Contains(now, two) { // not the rollout's either
			c = append(c, Condition{Kind: "fleet", Name: "keys", Status: "DEGRADED", Reason: "LeftOut"})
		}
		return c
	}
	w.pass()
	turn := 0
	w.nodes["n00"].load = func([]Ref) Load {
		turn++
		return Load{P99: time.Millisecond, Errors: float64(9 * (turn % 2))}
	}
	w.nodes["n01"].load = func(now []Ref) Load { // three times as long, but less than 1 ms longer
		if slices.Contains(now, two) {
			return Load{P99: 300 * time.Microsecond}
		}
		return Load{P99: 100 * time.Microsecond}
	}
	w.nodes["n02"].load = func(now []Ref) Load { // 2 ms longer, but less than twice as long
		if slices.Contains(now, two) {
			return Load{P99: 6 * time.Millisecond}
		}
		return Load{P99: 4 * time.Millisecond}
	}
	w.pass()
	if r := w.until(t, ref); r.State != Done {
		t.Errorf("%s: %s", w.text(ref), r.Reason)
	}
}

// Nodes that are down for longer than apply_within after the change are lost; one that is soon
// back is not.
func TestLostNodes(t *testing.T) {
	for _, c := range []struct {
		most  uint32
		away  int // seconds
		state RolloutState
	}{{0, 5, Done}, {0, 100, RolledBack}, {1, 100, Done}} {
		plan := quick()
		plan.MaxLost = c.most
		w, ref := begun(t, 5, plan)
		w.pass()
		w.pass()
		w.down("n00")
		for range c.away {
			w.pass()
		}
		w.nodes["n00"].up = true
		w.tellNode("n00")
		r := w.until(t, ref)
		if r.State != c.state {
			t.Errorf("%d may be lost, away for %d s: %s: %s", c.most, c.away, w.text(ref), r.Reason)
		}
		if c.state == RolledBack && r.Reason != "n00: DOWN for more than 10s after the change (max_lost is 0)" {
			t.Error(r.Reason)
		}
		w.pass()
		w.pass()
		want := one
		if c.state == Done {
			want = two
		}
		if got := w.having(want); len(got) != 5 {
			t.Errorf("%s is on %v", want, got)
		}
	}
}

// A node that does not apply the change in time halts the rollout.
func TestNotAppliedInTime(t *testing.T) {
	w, ref := begun(t, 2, quick())
	w.nodes["n00"].deaf = true
	for range 12 {
		w.pass()
	}
	if r := w.rollouts[ref]; r.State != Halted || r.Reason != "not applied within 10s: n00" {
		t.Errorf("%s: %s", w.text(ref), r.Reason)
	}
	w.nodes["n00"].deaf = false
	if r := w.until(t, ref); r.State != RolledBack {
		t.Errorf("%s", w.text(ref))
	}
}

// outcome is all that must not depend on when controllers die.
func (w *world) outcome(ref Ref) string {
	return fmt.Sprintf("%s: small@1 on %v, small@2 on %v", w.text(ref), w.having(one), w.having(two))
}

// The controller may die at any write, before or after it lands: the next one brings the rollout
// to the same end.
func TestControllerDiesAtAnyWrite(t *testing.T) {
	for name, arrange := range map[string]func(*world){
		"good": func(*world) {},
		"bad canary": func(w *world) {
			w.nodes["n00"].load = slow
		},
		"bad last wave": func(w *world) {
			w.nodes["n06"].load = slow
		},
		"refused": func(w *world) {
			w.nodes["n03"].refuses = func(a []Ref) string { return strings.Repeat("x", slices.Index(a, two)+1) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(k kill) (string, int) {
				w, ref := begun(t, 7, quick())
				arrange(w)
				w.kill = k
				w.pass()
				w.until(t, ref)
				w.pass()
				w.pass()
				for node, b := range w.nodes {
					if !b.deadline.IsZero() {
						t.Errorf("%+v: %s waits for a confirmation", k, node)
					}
				}
				return w.outcome(ref), w.wrote
			}
			want, writes := run(kill{})
			if writes < 4 {
				t.Fatalf("only %d writes", writes)
			}
			for n := 1; n <= writes; n++ {
				for _, landed := range []bool{false, true} {
					if got, _ := run(kill{n: n, landed: landed, away: 8 * time.Second}); got != want {
						t.Errorf("died at write %d of %d, landed %v: got\n%s\nwant\n%s", n, writes, landed, got, want)
					}
				}
			}
		})
	}
}

// Without a controller, nodes take a change back that nobody confirmed. The next controller halts
// the rollout; the nodes that had confirmed it take it back too.
func TestNobodyConfirms(t *testing.T) {
	w, ref := begun(t, 6, quick())
	w.await(t, ref, "baking", wave(1, WaveBaking))
	if got := w.having(two); len(got) != 3 {
		t.Fatalf("small@2 is on %v", got)
	}
	w.view, w.back = nil, w.now.Add(time.Hour)
	for range int(quick().Window() / time.Second) {
		w.pass()
	}
	if got := w.having(two); len(got) != 1 {
		t.Errorf("nobody confirmed, and small@2 is on %v", got)
	}
	w.back = w.now
	if r := w.until(t, ref); r.State != RolledBack || len(w.having(one)) != 6 {
		t.Errorf("%s: %s; small@1 is on %v", w.text(ref), r.Reason, w.having(one))
	}
}

func TestPauseResumeAbort(t *testing.T) {
	w, ref := begun(t, 6, quick())
	w.pass()
	w.pass()
	if err := w.change(ref, (*Rollout).Pause); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		w.pass()
	}
	r := w.rollouts[ref]
	if r.State != Paused || r.Reason != "paused by alice" || r.Waves[0].State != WaveDone || r.Waves[1].State != WavePending || len(w.having(two)) != 1 {
		t.Errorf("paused: %s: %s", w.text(ref), r.Reason)
	}
	for verb, change := range map[string]func(*Rollout, string, time.Time) (*Rollout, error){"paused": (*Rollout).Pause} {
		if err := w.change(ref, change); err == nil || err.Error() != "rollout small@2 is PAUSED and can't be "+verb {
			t.Error(err)
		}
	}
	if _, err := w.apply(sized("small", 4096), quick()); err == nil || err.Error() != "rollout small@2 is PAUSED: wait until it ends, or abort it: rdmactl fleet rollouts abort small@2" {
		t.Error(err)
	}
	if err := w.change(ref, (*Rollout).Resume); err != nil {
		t.Fatal(err)
	}
	w.await(t, ref, "baking", wave(1, WaveBaking))
	if err := w.change(ref, (*Rollout).Abort); err != nil {
		t.Fatal(err)
	}
	if w.rollouts[ref].Settled() {
		t.Error("settled before nodes took it back")
	}
	r = w.until(t, ref)
	if r.State != Aborted || r.Reason != "aborted by alice" || r.Waves[1].State != WaveTakenBack || len(w.having(one)) != 6 {
		t.Errorf("%s: %s; small@1 is on %v", w.text(ref), r.Reason, w.having(one))
	}
	if err := w.change(ref, (*Rollout).Abort); err == nil {
		t.Error("aborted twice")
	}
}

// Rollouts of policies that can select the same nodes wait for one another; others don't.
func TestOneRolloutAtATime(t *testing.T) {
	w, _ := begun(t, 3, quick())
	big := sized("big", 4096)
	big.Selector = Selector{{Label: "rack", Values: []string{"r1"}}}
	_, err := w.apply(big, quick())
	if err == nil || err.Error() != "rollout small@2 is RUNNING, on nodes that policy big can select too: wait until it ends, or abort it: rdmactl fleet rollouts abort small@2" {
		t.Error(err)
	}
	big.Selector = append(big.Selector, Term{Label: "role", Values: []string{"edge"}})
	if _, err := w.apply(big, quick()); err != nil {
		t.Error(err)
	}

	// Nodes that a policy leaves are its nodes, too.
	w = newWorld().with(3)
	if _, err := w.apply(sized("small", 2048), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.apply(sized("big", 2048), quick()); err != nil {
		t.Fatal(err)
	}
	edges := sized("small", 1024)
	edges.Selector = Selector{{Label: "role", Values: []string{"edge"}}}
	if _, err := w.apply(edges, quick()); err == nil || !strings.HasPrefix(err.Error(), "rollout big@1 is RUNNING, on nodes that policy small can select too") {
		t.Error(err)
	}
}

// Nodes that join get what their labels say by the state of the rollout: the earlier revision
// until a wave has them, then the new one.
func TestNodesJoin(t *testing.T) {
	w, ref := begun(t, 4, quick())
	w.pass()
	w.join("n99", Labels{"role": "gateway"})
	w.join("x", Labels{"role": "edge"})
	w.pass()
	w.pass()
	if got := w.nodes["n99"].has; !slices.Equal(got, []Ref{one}) {
		t.Errorf("a node that joined during the canary has %v", got)
	}
	r := w.until(t, ref)
	last := r.Waves[len(r.Waves)-1]
	if r.State != Done || !slices.Contains(last.Nodes, "n99") || len(w.nodes["x"].has) != 0 {
		t.Errorf("%s", w.text(ref))
	}
	w.join("late", Labels{"role": "gateway"})
	w.pass()
	w.pass()
	if got := w.nodes["late"].has; !slices.Equal(got, []Ref{two}) {
		t.Errorf("a node that joined afterwards has %v", got)
	}
}

// Nodes that are down when their wave begins are left out, and have the change when they return.
// A halted rollout takes the change from nodes that are down, too.
func TestNodesThatAreDown(t *testing.T) {
	w, ref := begun(t, 4, quick())
	w.down("n00")
	w.pass()
	if got := w.rollouts[ref].Waves[0].Nodes; !slices.Equal(got, []string{"n01"}) {
		t.Errorf("canary %v", got)
	}
	w.nodes["n03"].load = slow
	w.await(t, ref, "done", wave(0, WaveDone))
	w.down("n01")
	for range 5 {
		w.pass()
	}
	w.await(t, ref, "halted", func(r *Rollout) bool { return r.State != Running })
	r := w.until(t, ref)
	if r.State != RolledBack || !strings.Contains(r.Waves[0].Reason, "DOWN, takes it back when it returns: n01") {
		t.Errorf("%s: %s", w.text(ref), r.Waves[0].Reason)
	}
	if got := w.assigned["n01"]; !slices.Equal(got.Policies, []Ref{one}) {
		t.Errorf("n01 is assigned %v", got.Policies)
	}
	for name := range w.nodes {
		w.nodes[name].up = true
		w.tellNode(name)
	}
	w.pass()
	w.pass()
	if got := w.having(one); len(got) != 4 {
		t.Errorf("small@1 is on %v", got)
	}
}

// A first revision that is halted leaves nothing on its nodes.
func TestFirstRevisionIsHalted(t *testing.T) {
	w := newWorld().with(3)
	w.nodes["n00"].conditions = func(now []Ref) []Condition {
		return slices.Repeat([]Condition{{Kind: "listener", Name: "nfs", Status: "FAILED"}}, len(now))
	}
	w.pass()
	r, err := w.apply(sized("small", 2048), quick())
	if err != nil {
		t.Fatal(err)
	}
	w.pass()
	if r := w.until(t, r.Ref); r.State != RolledBack || len(w.having(one)) != 0 {
		t.Errorf("%s; on %v", w.text(r.Ref), w.having(one))
	}
}

// Whatever happens to nodes, controllers and operators: only nodes of waves that have begun have
// the change; a rollout that is done is everywhere; one that is not, is nowhere.
func TestRolloutsEndWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld().with(rapid.IntRange(1, 9).Draw(t, "nodes"))
		if _, err := w.apply(sized("small", 1024), nil); err != nil {
			t.Fatal(err)
		}
		w.pass()
		w.pass()
		plan := quick()
		plan.Steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
			if rapid.Bool().Draw(t, "percent") {
				return Step{Percent: rapid.Uint32Range(1, 100).Draw(t, "n")}
			}
			return Step{Nodes: rapid.Uint32Range(0, 5).Draw(t, "n")}
		}), 0, 4).Draw(t, "steps")
		plan.Spread = rapid.SampledFrom([]string{"", "rack"}).Draw(t, "spread")
		plan.MaxLost = rapid.Uint32Range(0, 2).Draw(t, "lost")
		r, err := w.apply(sized("small", 2048), plan)
		if err != nil {
			t.Fatal(err)
		}
		w.kill = kill{w.wrote + rapid.IntRange(0, 40).Draw(t, "dies"), rapid.Bool().Draw(t, "landed"), time.Duration(rapid.IntRange(0, 80).Draw(t, "away")) * time.Second}
		w.act(t, r.Ref)
		end := w.until(t, r.Ref)
		for name := range w.nodes {
			w.nodes[name].up = true
			w.tellNode(name)
		}
		for range 200 { // the controller may still be away
			w.pass()
		}
		end = w.rollouts[end.Ref]
		want := one
		if end.State == Done {
			want = two
		}
		if got := w.having(want); len(got) != len(w.nodes) {
			t.Fatalf("%s: %s is on %v", w.text(r.Ref), want, got)
		}
	})
}

// act does something to the world at each of some seconds.
func (w *world) act(t *rapid.T, ref Ref) {
	names := make([]string, 0, len(w.nodes))
	for i := range len(w.nodes) {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "actions") {
		for range rapid.IntRange(0, 15).Draw(t, "seconds") {
			w.pass()
			w.onlyBegun(t, ref)
		}
		node := w.nodes[rapid.SampledFrom(names).Draw(t, "node")]
		switch rapid.IntRange(0, 6).Draw(t, "action") {
		case 0:
			node.load = slow
		case 1:
			node.up = !node.up
		case 2:
			_ = w.change(ref, (*Rollout).Pause)
		case 3:
			_ = w.change(ref, (*Rollout).Abort)
		case 4:
			w.view, w.back = nil, w.now.Add(30*time.Second)
		case 5:
			w.join(fmt.Sprintf("j%d", i), Labels{"role": "gateway"})
		default:
			_ = w.change(ref, (*Rollout).Resume)
		}
		for _, name := range names {
			w.tellNode(name)
		}
	}
	if w.rollouts[ref].State == Paused {
		_ = w.change(ref, (*Rollout).Resume)
	}
}

func (w *world) onlyBegun(t *rapid.T, ref Ref) {
	r := w.rollouts[ref]
	if r.State == Done {
		return
	}
	nodes := r.begun()
	for _, name := range w.having(ref) {
		if !slices.Contains(nodes, name) {
			t.Fatalf("%s has it: %s", name, w.text(ref))
		}
	}
}

// A wave does not begin before its nodes have reported: the gates would have nothing to compare with.
func TestWavesWaitForReports(t *testing.T) {
	w := newWorld().with(1)
	w.view = w.list()
	for _, b := range w.nodes {
		b.load = func(now []Ref) Load { return Load{Errors: 50 * float64(len(now))} }
	}
	r, err := w.apply(sized("small", 1024), quick())
	if err != nil {
		t.Fatal(err)
	}
	w.control()
	if w.rollouts[one].Waves[0].begun() {
		t.Errorf("%s", w.text(one))
	}
	if r = w.until(t, r.Ref); r.State != RolledBack {
		t.Errorf("%s", w.text(one))
	}
}

// The gates compare with the time before the change, not with the last wave: what gets worse by
// and by halts the rollout, too.
func TestBeforeIsBeforeTheChange(t *testing.T) {
	w, ref := begun(t, 6, quick())
	errors := 0.0
	w.nodes["n00"].load = func(now []Ref) Load { return Load{Errors: errors} }
	w.pass()
	errors = 0.9
	w.await(t, ref, "done", wave(0, WaveDone))
	w.pass()
	errors = 1.5
	if r := w.until(t, ref); r.State != RolledBack || r.Reason != "n00: 1.5 errors per second, 0.0 before (max_errors_per_second is 1 more)" {
		t.Errorf("%s: %s", w.text(ref), r.Reason)
	}
}

// A wave bakes for the whole time of the plan.
func TestBake(t *testing.T) {
	plan := quick()
	plan.Bake = time.Minute
	w, ref := begun(t, 2, plan)
	w.await(t, ref, "baking", wave(0, WaveBaking))
	from := w.now
	w.await(t, ref, "done", wave(0, WaveDone))
	if took := w.now.Sub(from); took < plan.Bake {
		t.Errorf("baked for %v", took)
	}
}

// Two reports with the change must be worse, for errors and p99 alike.
func TestOneReportIsNotEnough(t *testing.T) {
	plan, before := quick(), &Before{Errors: 1, P99: time.Millisecond}
	for name, load := range map[string]Load{"errors": {Errors: 9, P99: time.Millisecond}, "p99": {P99: 9 * time.Millisecond}} {
		for _, c := range []struct {
			what string
			last [2]Report
			bad  bool
		}{
			{"both are worse", [2]Report{{Applied: 7, Load: load}, {Applied: 7, Load: load}}, true},
			{"the last is worse", [2]Report{{Applied: 7, Load: load}, {Applied: 7, Load: Load{P99: time.Millisecond}}}, false},
			{"the one before is worse", [2]Report{{Applied: 7, Load: Load{P99: time.Millisecond}}, {Applied: 7, Load: load}}, false},
			{"the one before is without the change", [2]Report{{Applied: 7, Load: load}, {Applied: 5, Load: load}}, false},
		} {
			got := plan.judgeLoad([2]*Reported{{Report: c.last[0]}, {Report: c.last[1]}}, before)
			if (got != "") != c.bad {
				t.Errorf("%s, %s: %q", name, c.what, got)
			}
		}
	}
}

// Connections on which the change is impossible count over all nodes.
func TestUnsupportedOfAllNodes(t *testing.T) {
	plan := quick()
	plan.MaxUnsupported = 1
	w, ref := begun(t, 4, plan)
	for _, node := range []string{"n00", "n03"} {
		w.nodes[node].unsupported = func(now []Ref) uint32 {
			if slices.Contains(now, two) {
				return 1
			}
			return 0
		}
	}
	r := w.until(t, ref)
	if r.State != RolledBack || r.Reason != "the change is UNSUPPORTED on 2 connections (max_unsupported is 1)" {
		t.Errorf("%s: %s", w.text(ref), r.Reason)
	}
}

// Nodes from which a revision takes settings away have it in waves, too.
func TestTakenAwayInWaves(t *testing.T) {
	narrow, none := sized("small", 2048), sized("small", 2048)
	narrow.Selector = append(narrow.Selector, Term{Label: "rack", Values: []string{"r1"}})
	none.Settings = nil
	for name, c := range map[string]struct {
		next Policy
		left []string
	}{"fewer nodes": {narrow, []string{"n01", "n04"}}, "no settings": {none, nil}} {
		w := newWorld().with(6)
		if _, err := w.apply(sized("small", 1024), nil); err != nil {
			t.Fatal(err)
		}
		w.pass()
		w.pass()
		r, err := w.apply(c.next, quick())
		if err != nil {
			t.Fatal(err)
		}
		w.await(t, r.Ref, "baking", wave(0, WaveBaking))
		if got := w.having(one); len(got) != 5 {
			t.Errorf("%s: after the canary, small@1 is on %v", name, got)
		}
		end := w.until(t, r.Ref)
		if len(end.begun()) != 6 || len(w.having(one)) != 0 || !slices.Equal(w.having(two), c.left) {
			t.Errorf("%s: %s, small@1 on %v, small@2 on %v", name, w.text(r.Ref), w.having(one), w.having(two))
		}
	}
}
