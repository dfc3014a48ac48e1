package fleet

import (
	"slices"
	"testing"
	"time"
)

// slow is a node's load that is worse with small@2.
func slow(now []Ref) Load {
	if slices.Contains(now, two) {
		return Load{Calls: 100, P99: 9 * time.Millisecond}
	}
	return Load{Calls: 100, P99: 2 * time.Millisecond}
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
