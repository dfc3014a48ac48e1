package fleetproto

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

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
