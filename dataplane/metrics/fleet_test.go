package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

func TestFleet(t *testing.T) {
	f := Fleet{
		Connected: true, Assigned: 17, Applied: 15, Drift: true, Lag: 90 * time.Second, Errors: map[string]uint64{"Unreachable": 3},
		Controller: true, Nodes: map[string]int{"up": 4, "down": 1}, Rollouts: map[string]int{"halted": 1, "running": 0},
	}
	want := `rdmad_fleet_applied_revision 15
rdmad_fleet_assigned_revision 17
rdmad_fleet_connected 1
rdmad_fleet_controller 1
rdmad_fleet_drift 1
rdmad_fleet_etcd_errors_total{reason="Unreachable"} 3
rdmad_fleet_lag_seconds 90
rdmad_fleet_nodes{state="down"} 1
rdmad_fleet_nodes{state="up"} 4
rdmad_fleet_rollouts{state="halted"} 1
rdmad_fleet_rollouts{state="running"} 0`
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewFleet(func() Fleet { return f }))
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range all {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
