package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

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

// A node that is UP and does not report any more halts the rollout, but no sooner than other nodes
// would take the change back.
func TestSilentNode(t *testing.T) {
	w, ref := begun(t, 2, quick())
	w.await(t, ref, "baking", wave(0, WaveBaking))
	w.nodes["n00"].hangs = true
	for range int(quick().Window()/time.Second) - 1 {
		w.pass()
	}
	if r := w.rollouts[ref]; r.State != Running {
		t.Errorf("%s: %s", w.text(ref), r.Reason)
	}
	w.pass()
	if r := w.rollouts[ref]; r.State != Halted || r.Reason != "n00: UP, but without a report for 45s" {
		t.Errorf("%s: %s", w.text(ref), r.Reason)
	}
	w.nodes["n00"].hangs = false
	if r := w.until(t, ref); r.State != RolledBack {
		t.Error(w.text(ref))
	}
}

// A node that hangs after its wave is done halts the rollout, too: else the last one would wait for it
// for ever, and the others would keep what it may have no more.
func TestSilentNodeOfADoneWave(t *testing.T) {
	for name, i := range map[string]int{"n00": 0, "n01": 1} {
		w, ref := begun(t, 2, quick())
		w.await(t, ref, "done", wave(i, WaveDone))
		w.nodes[name].hangs = true
		for range int(quick().Window()/time.Second) + 1 {
			w.pass()
		}
		if r := w.rollouts[ref]; r.State != Halted || r.Reason != name+": UP, but without a report for 45s" {
			t.Errorf("%s: %s", w.text(ref), r.Reason)
		}
	}
}

// A node that is UP and never reports halts the rollout before its wave, too: the rollout would wait for its first
// report for ever, without a reason that anybody sees.
func TestNodeWithoutAReport(t *testing.T) {
	for _, state := range []WaveState{WaveApplying, WaveDone} {
		w, ref := begun(t, 2, quick())
		w.await(t, ref, state.String(), wave(0, state))
		w.nodes["n02"] = &box{labels: Labels{"role": "gateway"}, up: true, hangs: true}
		w.tellNode("n02")
		if r := w.until(t, ref); r.State != RolledBack || r.Reason != "n02: UP, but without a report for 45s" {
			t.Errorf("joined in %s: %s: %s", state, w.text(ref), r.Reason)
		}
	}
}

// A node that was away for long, and is UP again, has time for its first report.
func TestBackBeforeItsFirstReport(t *testing.T) {
	plan := quick()
	plan.MaxLost, plan.Bake = 1, 10*time.Minute
	w, ref := begun(t, 2, plan)
	w.await(t, ref, "baking", wave(0, WaveBaking))
	w.down("n00")
	for range int(plan.Window()/time.Second) + 1 {
		w.pass()
	}
	n := w.nodes["n00"]
	n.up, n.hangs = true, true
	w.tellNode("n00")
	w.pass()
	n.hangs = false
	if r := w.until(t, ref); r.State != Done {
		t.Errorf("%s: %s", w.text(ref), r.Reason)
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

// TestNodesJoinAPlanOfManyWaves: there are never more waves than a rollout may have, and the nodes
// that join are in one, too: the last one has all for which there is no other.
func TestNodesJoinAPlanOfManyWaves(t *testing.T) {
	p := quick()
	p.Steps = nil
	for i := range uint32(MaxWaves - 1) {
		p.Steps = append(p.Steps, Step{Percent: 3 * (i + 1)})
	}
	w, ref := begun(t, 100, p)
	w.await(t, ref, "begun", wave(0, WaveApplying))
	for i := range 100 {
		w.join(fmt.Sprintf("new%02d", i), Labels{"role": "gateway"})
	}
	w.await(t, ref, "settled", func(r *Rollout) bool {
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		return r.Settled()
	})
	r := w.rollouts[ref]
	if n := len(r.begun()); r.State != Done || n != 200 || len(r.Waves) != MaxWaves {
		t.Errorf("%s with %d nodes in %d waves", r.State, n, len(r.Waves))
	}
}
