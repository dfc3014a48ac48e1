package spec

import (
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// TestRangesOfLimits: the data plane takes limits that this check has passed.
func TestRangesOfLimits(t *testing.T) {
	for _, c := range []struct {
		l     Limits
		limit string // that is wrong, or ""
	}{
		{Limits{Limits: dataplane.Limits{Connections: 65536, ConnectionsPerPeer: 65536, Handshakes: 65536, Idle: 720 * time.Hour}}, ""},
		{Limits{Limits: dataplane.Limits{Connections: -1}}, "connections"},
		{Limits{Limits: dataplane.Limits{Connections: 65537}}, "connections"},
		{Limits{Limits: dataplane.Limits{ConnectionsPerPeer: -1}}, "connections_per_peer"},
		{Limits{Limits: dataplane.Limits{Handshakes: -1}}, "handshakes"},
		{Limits{Limits: dataplane.Limits{Idle: time.Millisecond}}, "idle"},
		{Limits{Limits: dataplane.Limits{Idle: 721 * time.Hour}}, "idle"},
		{Limits{Memory: dataplane.MinMemory, TCPConnections: 65536, TCPConnectionsPerPeer: 65536, TCPIdle: 24 * time.Hour}, ""},
		{Limits{Memory: -1}, "memory"},
		{Limits{Memory: dataplane.MinMemory - 1}, "memory"},
		{Limits{Memory: dataplane.MaxMemory + 1}, "memory"},
		{Limits{TCPConnections: -1}, "tcp_connections"},
		{Limits{TCPConnectionsPerPeer: 65537}, "tcp_connections_per_peer"},
		{Limits{TCPIdle: time.Second}, "tcp_idle"},
		{Limits{TCPIdle: 25 * time.Hour}, "tcp_idle"},
	} {
		wrong := ""
		for key := range Problems(&c.l) {
			wrong = key
		}
		if wrong != c.limit {
			t.Errorf("%+v: %q, want one about %q", c.l, wrong, c.limit)
		}
	}
}

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
