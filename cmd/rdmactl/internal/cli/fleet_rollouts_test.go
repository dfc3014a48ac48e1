package cli

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestRolloutLineByTwoClocks: a rollout begins by the clock of the rdmad that was asked, its waves by
// that of the controller.
func TestRolloutLineByTwoClocks(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		since := began.Add(skew)
		cells := rolloutLine(&rdmadv1.FleetRollout{State: rdmadv1.FleetRollout_RUNNING, Began: timestamppb.New(began), Waves: []*rdmadv1.FleetWave{
			{Nodes: []string{"a"}, State: rdmadv1.FleetWave_APPLYING, Since: timestamppb.New(since)},
			{Nodes: []string{"b"}},
		}})
		if at, wave := cells[0].Text, cells[2].Text; at != since.Local().Format(time.DateTime) || wave != "wave 1/2 APPLYING on a" {
			t.Errorf("%v: %s %q", skew, at, wave)
		}
	}
}
