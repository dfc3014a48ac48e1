package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

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
