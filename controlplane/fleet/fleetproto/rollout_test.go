package fleetproto

import (
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/fleet"
)

// TestBeforeOfLongConditions: a node reads what the controller notes of its report, also of an
// export with a long path.
func TestBeforeOfLongConditions(t *testing.T) {
	c := fleet.Condition{Kind: "export", Name: "data:" + strings.Repeat("/dir", 1000), Reason: "Missing"}
	a := fleet.Assignment{Before: &fleet.Before{Conditions: []string{c.ID()}}}
	if _, err := Assignment(AssignmentMessage(&a)); err != nil {
		t.Error(err)
	}
	other := c
	if other.Reason = "Replaced"; other.ID() == c.ID() {
		t.Error("another reason has the same ID")
	}
}
