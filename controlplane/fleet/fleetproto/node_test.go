package fleetproto

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestConditionsOfReports: what can be read of a report, the node can read of the assignment that has it as the state
// before a rollout.
func TestConditionsOfReports(t *testing.T) {
	for text, r := range map[string]fleet.Report{
		"many":          {Conditions: make([]fleet.Condition, 64)},
		"too many":      {Conditions: make([]fleet.Condition, 65)},
		"a long name":   {Conditions: []fleet.Condition{{Name: strings.Repeat("/dir", 1000)}}},
		"a long reason": {Conditions: []fleet.Condition{{Reason: strings.Repeat("x", 1025)}}},
	} {
		_, got, err := Status(StatusMessage(&fleet.Identity{}, &r))
		if bad := text == "too many" || text == "a long reason"; bad != (err != nil) {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil {
			continue
		}
		if _, err := Assignment(AssignmentMessage(&fleet.Assignment{Before: &fleet.Before{Conditions: got.IDs()}})); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestNumbersOfReports: a report whose numbers no node has can't be read. NaN would pass every gate.
func TestNumbersOfReports(t *testing.T) {
	good := StatusMessage(&fleet.Identity{}, &fleet.Report{
		Assigned: 1 << 53, Applied: 1, Load: fleet.Load{Calls: 0.5, Errors: 1e9, P99: time.Second},
	})
	if _, r, err := Status(good); err != nil || r.Assigned != 1<<53 || r.Load.Errors != 1e9 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, n := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300} {
		for i, m := range []*rdmadv1.FleetStatus{{AssignedRevision: n}, {AppliedRevision: n}, {CallsPerSecond: n}, {ErrorsPerSecond: n}} {
			if _, r, err := Status(m); err == nil {
				t.Errorf("number %d is %v: %+v", i, n, r)
			}
		}
		if a, err := Assignment(&rdmadv1.FleetAssignment{Before: &rdmadv1.FleetBefore{ErrorsPerSecond: n}}); err == nil {
			t.Errorf("before with %v: %+v", n, a)
		}
	}
	if _, r, err := Status(&rdmadv1.FleetStatus{P99: durationpb.New(-time.Second)}); err == nil { // Assignment refuses it
		t.Errorf("a negative p99: %+v", r)
	}
}
