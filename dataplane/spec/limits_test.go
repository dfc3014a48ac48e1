package spec

import (
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// TestLimitsOfOwnPorts: ranges of the control plane's limits, and what goes together.
func TestLimitsOfOwnPorts(t *testing.T) {
	for _, c := range []struct {
		l     port.Limits
		limit string // that is wrong, or ""
	}{
		{port.Limits{}, ""},
		{port.Limits{Connections: 65536, ConnectionsPerPeer: 65536, Reserved: 65535, Idle: 720 * time.Hour}, ""},
		{port.Limits{Connections: -1}, "connections"},
		{port.Limits{Connections: 65537}, "connections"},
		{port.Limits{ConnectionsPerPeer: 65537}, "connections_per_peer"},
		{port.Limits{Reserved: 65537}, "reserved"},
		{port.Limits{Reserved: 256}, "reserved"},
		{port.Limits{Connections: 8, Reserved: 8}, "reserved"},
		{port.Limits{Idle: time.Millisecond}, "idle"},
		{port.Limits{Idle: 721 * time.Hour}, "idle"},
	} {
		wrong := ""
		for key := range Problems(&Limits{Control: c.l}) {
			wrong = key
		}
		if want := c.limit; want != "" && wrong != "control."+want || want == "" && wrong != "" {
			t.Errorf("%+v: %q, want one about %q", c.l, wrong, want)
		}
	}
}
