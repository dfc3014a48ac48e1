package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	one = Ref{"small", 1}
	two = Ref{"small", 2}
)

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
