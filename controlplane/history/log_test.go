package history

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// revisions of entries, for comparison.
func revisions(entries []*Entry) []uint32 {
	out := []uint32{}
	for _, e := range entries {
		out = append(out, e.Revision)
	}
	return out
}

func equal(a, b []uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// scopes are as many different ones.
func scopes[V any](n int) map[settings.Scope]V {
	out := make(map[settings.Scope]V)
	for i := range n {
		out[settings.Scope{Kind: settings.Listener, Name: strconv.Itoa(i)}] = *new(V)
	}
	return out
}

// large makes the step of an entry one of many scopes, and returns for how many it counts.
func large(t *rapid.T, s *settings.Step) int {
	n := rapid.IntRange(0, MaxDeltas/4).Draw(t, "deltas")
	before, after := rapid.IntRange(0, settings.MaxScopes).Draw(t, "before"), rapid.IntRange(0, settings.MaxScopes).Draw(t, "after")
	switch rapid.IntRange(0, 2).Draw(t, "of") {
	case 0:
		s.Deltas = make([]settings.Delta, n)
		return n
	case 1:
		s.File = &settings.FileDelta{
			Before: settings.FileLayer{Scopes: scopes[settings.FileValues](before)}, After: settings.FileLayer{Scopes: scopes[settings.FileValues](after)},
		}
	case 2:
		s.Fleet = &settings.FleetDelta{
			Before: settings.FleetLayer{Scopes: scopes[settings.FleetValues](before)}, After: settings.FleetLayer{Scopes: scopes[settings.FleetValues](after)},
		}
	}
	return before + after
}

// TestLogFollowsModel holds a log against a plain list.
func TestLogFollowsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Log
		first := rapid.Uint32Range(1, 3).Draw(t, "first")
		var model []*Entry
		counts := make(map[*Entry]int)
		sum, restored := 0, rapid.IntRange(0, MaxEntries).Draw(t, "restored")
		for i := range rapid.IntRange(0, 3).Draw(t, "rounds") * MaxEntries / 2 {
			e := &Entry{Revision: first + uint32(i)}
			if rapid.IntRange(0, 99).Draw(t, "large") == 0 {
				counts[e] = large(t, &e.Step)
			}
			sum += counts[e]
			if i < restored {
				l.Restore(e)
				model = append(model, e)
				continue
			}
			var excess []uint32
			for len(model) >= MaxEntries || sum > MaxDeltas {
				sum -= counts[model[0]]
				excess = append(excess, model[0].Revision)
				model = model[1:]
			}
			if got := l.Excess(e); !equal(got, excess) {
				t.Fatalf("excess %v, want %v", got, excess)
			}
			l.Add(e)
			model = append(model, e)
		}
		newest := func(list []*Entry) []uint32 {
			out := []uint32{}
			for i := len(list) - 1; i >= 0; i-- {
				out = append(out, list[i].Revision)
			}
			return out
		}
		if got := revisions(l.Newest(0, 0)); !equal(got, newest(model)) {
			t.Fatalf("got %v, want %v", got, newest(model))
		}
		oldest, ok := l.Oldest()
		if ok != (len(model) > 0) || ok && oldest != model[0].Revision-1 {
			t.Fatalf("oldest %d, %v", oldest, ok)
		}
		if len(model) == 0 {
			return
		}
		at := rapid.IntRange(0, len(model)-1).Draw(t, "at")
		limit := rapid.IntRange(1, 2*len(model)).Draw(t, "limit")
		want := newest(model[:at])
		if got := revisions(l.Newest(model[at].Revision, limit)); !equal(got, want[:min(limit, len(want))]) {
			t.Fatalf("before %d: %v, want %v", model[at].Revision, got, want)
		}
		since, ok := l.Since(model[at].Revision)
		if !ok || !equal(revisions(since), newest(model[at+1:])) || l.Find(model[at].Revision) != model[at] {
			t.Fatalf("since %d: %v, %v", model[at].Revision, revisions(since), ok)
		}
	})
}

func TestLogEdges(t *testing.T) {
	var l Log
	if l.Find(0) != nil || l.Find(1) != nil || len(l.Newest(5, 1)) != 0 {
		t.Error("an empty log has entries")
	}
	if _, ok := l.Since(0); ok {
		t.Error("an empty log leads somewhere")
	}
	l.Add(&Entry{Revision: 7})
	l.Add(&Entry{Revision: 8})
	l.Replace(&Entry{Revision: 8, Status: Confirmed})
	l.Replace(&Entry{Revision: 9, Status: Confirmed})
	if l.Find(6) != nil || l.Find(9) != nil || l.Find(1<<32-1) != nil || l.Find(8).Status != Confirmed {
		t.Error("found what is not there, or not what is")
	}
	for revision, want := range map[uint32]bool{5: false, 6: true, 7: true, 8: true, 9: false, 1<<32 - 1: false} {
		if _, ok := l.Since(revision); ok != want {
			t.Errorf("since %d: %v", revision, ok)
		}
	}
	if got := revisions(l.Newest(1<<32-1, 1)); !equal(got, []uint32{8}) {
		t.Errorf("%v", got)
	}
	if got := revisions(l.Newest(3, 0)); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestNames(t *testing.T) {
	var kind Kind
	for k := range NumKinds {
		if err := kind.UnmarshalText([]byte(k.String())); err != nil || kind != k {
			t.Errorf("kind %d is %q is %d, %v", k, k, kind, err)
		}
	}
	var status Status
	for s := range NumStatuses {
		if err := status.UnmarshalText([]byte(s.String())); err != nil || status != s {
			t.Errorf("status %d is %q is %d, %v", s, s, status, err)
		}
	}
	if err := kind.UnmarshalText(nil); err == nil || err.Error() != `kind ""` {
		t.Error(err)
	}
	if err := status.UnmarshalText([]byte("done")); err == nil || err.Error() != `status "done"` {
		t.Error(err)
	}
}
