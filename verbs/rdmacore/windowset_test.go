//go:build rdmacore && cgo

package rdmacore

import (
	"slices"
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

// TestWindowSet: the state of a window after each outcome of a request. A window whose bind
// was flushed may be bound, so the set keeps it, but not its region.
func TestWindowSet(t *testing.T) {
	const key = 7
	for _, c := range []struct {
		name          string
		op            verbs.Opcode
		status        verbs.WCStatus
		bound, unsure bool
	}{
		{"bound", verbs.OpBindMW, verbs.WCSuccess, true, false},
		{"bind refused", verbs.OpBindMW, verbs.WCMWBindErr, false, false},
		{"bind flushed", verbs.OpBindMW, verbs.WCWRFlushErr, false, true},
		{"invalidated", verbs.OpLocalInvalidate, verbs.WCSuccess, false, false},
		{"invalidation flushed", verbs.OpLocalInvalidate, verbs.WCWRFlushErr, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s windowSet
			w, m := new(memWindow), new(memRegion)
			m.Use()
			// held says whether the region can't be closed.
			held := func() bool {
				first, _ := m.Shut()
				if first {
					m.Reopen()
				}
				return !first
			}
			s.add(key, boundWindow{w: w, mr: m})
			s.done(c.op, key, c.status)
			if bound, unsure := s.has(w); bound != c.bound || unsure != c.unsure {
				t.Errorf("bound %t, unsure %t", bound, unsure)
			}
			if held() != c.bound {
				t.Errorf("the region is held: %t", held())
			}
			if kept := slices.Contains(s.all(), w); kept != (c.bound || c.unsure) {
				t.Errorf("kept to be given up with the queue pair: %t", kept)
			}
			if s.revoke(key) != c.bound {
				t.Error("only what is bound can be invalidated")
			}
			if found := s.window(key) == w; found != (c.bound || c.unsure) {
				t.Errorf("found by its key: %t", found)
			}
			s.dropAll(w)
			if len(s.all()) != 0 || held() {
				t.Errorf("in the end %d windows, region held: %t", len(s.all()), held())
			}
		})
	}
}
