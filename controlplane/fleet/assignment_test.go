package fleet

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

var (
	global = settings.Scope{}
	nfs    = settings.Scope{Kind: settings.Listener, Name: "nfs"}
)

func drawPolicies(t *rapid.T) (all []*Revision) {
	for i := range rapid.IntRange(0, 6).Draw(t, "policies") {
		r := &Revision{Revision: uint32(rapid.IntRange(1, 3).Draw(t, "revision"))}
		r.Name, r.Selector, r.Priority = fmt.Sprintf("p%d", i), drawSelector(t), int32(rapid.IntRange(-1, 1).Draw(t, "priority"))
		r.Settings = make(map[settings.Scope]live.Values)
		for range rapid.IntRange(0, 3).Draw(t, "settings") {
			scope := rapid.SampledFrom([]settings.Scope{global, nfs}).Draw(t, "scope")
			v := r.Settings[scope]
			v.Set(rapid.SampledFrom([]live.Key{live.CreditsMax, live.CreditsMin, live.DDPMinChunk}).Draw(t, "key"), rapid.Uint32Range(1, 3).Draw(t, "value"))
			r.Settings[scope] = v
		}
		all = append(all, r)
	}
	return all
}

// Without conflicts a node's settings follow from the policies that select it alone: each value
// is that of the highest priority, whatever the order in which policies are listed.
func TestLayerIsTheHighestPriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var accepted []*Revision
		for _, r := range drawPolicies(t) {
			if Conflicts(&r.Policy, accepted) == nil {
				accepted = append(accepted, r)
			}
		}
		labels := rapid.SampledFrom(everyLabels).Draw(t, "labels")
		refs := Assign(rapid.Permutation(accepted).Draw(t, "order"), labels)
		var had []*Revision
		for _, r := range accepted {
			if slices.Contains(refs, r.Ref()) != (r.Selector.Matches(labels) && len(r.Settings) > 0) {
				t.Fatalf("%v is assigned or not: %v", r.Ref(), refs)
			}
			if slices.Contains(refs, r.Ref()) {
				had = append(had, r)
			}
		}
		layer := Layer(had)
		for _, scope := range []settings.Scope{global, nfs} {
			got := layer.Scopes[scope]
			for k := range live.NumKeys {
				checkHighest(t, had, scope, k, got)
			}
		}
	})
}

func checkHighest(t *rapid.T, had []*Revision, scope settings.Scope, k live.Key, got settings.FleetValues) {
	var best *Revision
	for _, r := range had {
		v := r.Settings[scope]
		if v.Keys().Has(k) && (best == nil || best.Priority < r.Priority) {
			best = r
		}
	}
	if got.Values.Keys().Has(k) != (best != nil) {
		t.Fatalf("%s at %s: %v, want that of %v", k, scope, got, best)
	}
	if best == nil {
		return
	}
	v := best.Settings[scope]
	if got.Values.Value(k) != v.Value(k) {
		t.Fatalf("%s at %s: %d by %s, want %d by %s", k, scope, got.Values.Value(k), got.Policies[k], v.Value(k), best.Ref())
	}
}

// Two policies conflict exactly when some node would have two values of one priority.
func TestConflictIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawPolicies(t)
		if len(all) < 2 {
			return
		}
		a, b := &all[0].Policy, &all[1].Policy
		want := false
		for _, l := range everyLabels {
			if a.Priority != b.Priority || !a.Selector.Matches(l) || !b.Selector.Matches(l) {
				continue
			}
			for _, scope := range []settings.Scope{global, nfs} {
				x, y := a.Settings[scope], b.Settings[scope]
				for _, k := range (x.Keys() & y.Keys()).Keys() {
					want = want || x.Value(k) != y.Value(k)
				}
			}
		}
		if err := Conflict(a, b); (err != nil) != want {
			t.Fatalf("%v, want a conflict: %v", err, want)
		}
		if (Conflict(b, a) != nil) != want {
			t.Fatal("a conflict one way only")
		}
	})
}

func TestConflictNamesBoth(t *testing.T) {
	a, b := policy(t, "name: a\nselector: {role: gateway}\nsettings: {credits: {max: 9}}"), policy(t, "name: b\nselector: [\"!lab\"]\nsettings: {credits: {max: 10}}")
	const want = "policies a and b both have priority 0 and give credits.max at global different values (9 and 10) on nodes that both can select: change a priority or a selector"
	if err := Conflict(a, b); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	b.Priority = 1
	if err := Conflict(a, b); err != nil {
		t.Error(err)
	}
}

func TestNewest(t *testing.T) {
	var all []*Revision
	for _, ref := range []Ref{{"b", 2}, {"a", 1}, {"b", 10}, {"b", 9}} {
		all = append(all, &Revision{Policy: Policy{Name: ref.Policy}, Revision: ref.Revision})
	}
	got := Newest(all)
	if len(got) != 2 || got[0].Ref().String() != "a@1" || got[1].Ref().String() != "b@10" {
		t.Errorf("%v %v", got[0].Ref(), got[1].Ref())
	}
}

// A node that has an assignment of another name in force, and none of its own, gets what its labels say.
// If etcd has no policies, its keys may have been deleted: the node keeps what it has.
func TestLeftoverAssignment(t *testing.T) {
	v := NewView()
	other := Node{Up: true, Identity: Identity{Labels: Labels{"role": "other"}}}
	v.Members["renamed"] = &Member{Node: other, Reports: [2]*Reported{{Report: Report{Applied: 45}, At: 50}}}
	v.Members["new"] = &Member{Node: other, Reports: [2]*Reported{{At: 50}}}
	v.Members["unknown"] = &Member{Node: other}
	if got := v.Changes(); len(got) != 0 {
		t.Errorf("without policies: %+v", got)
	}
	v.Policies[Ref{"small", 1}] = &Revision{Policy: Policy{Name: "small", Selector: Selector{{"role", In, []string{"gateway"}}}}, Revision: 1}
	got := v.Changes()
	if a, ok := got["renamed"]; len(got) != 1 || !ok || len(a.Policies) != 0 {
		t.Errorf("%+v", got)
	}
	v.Members["renamed"].Assigned = Assigned{got["renamed"], 60}
	if got := v.Changes(); len(got) != 0 {
		t.Errorf("once it is written: %+v", got)
	}
}
