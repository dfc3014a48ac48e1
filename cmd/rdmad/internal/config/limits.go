package config

import (
	"errors"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Limits bound connections and the memory of the process. A limit of 0
// stands for the data plane's default.
type Limits struct {
	dataplane.Limits `mapstructure:",squash"`

	Memory                spec.Size     `mapstructure:"memory" range:"16MiB..1TiB" doc:"memory of the process"`
	TCPConnections        int           `mapstructure:"tcp_connections" range:"1..65536" doc:"TCP connections of services"`
	TCPConnectionsPerPeer int           `mapstructure:"tcp_connections_per_peer" range:"1..65536" doc:"those of one address"`
	TCPIdle               time.Duration `mapstructure:"tcp_idle" range:"10s..24h" doc:"time without a call after which a TCP connection is closed"`

	// Control and Metrics are those of rdmad's own ports.
	Control port.Limits `mapstructure:"control"`
	Metrics port.Limits `mapstructure:"metrics"`
}

// TCP gives the limits of services on TCP.
func (l *Limits) TCP() dataplane.TCPLimits {
	return dataplane.TCPLimits{Connections: l.TCPConnections, ConnectionsPerPeer: l.TCPConnectionsPerPeer, Idle: l.TCPIdle}
}

// elsewhere says where a limit belongs that a listener or a connector has not.
var elsewhere = map[string]string{
	"tcp_connections":          "this is a limit of all together: set limits.tcp_connections at the top",
	"tcp_connections_per_peer": "this is a limit of all together: set limits.tcp_connections_per_peer at the top",
	"tcp_idle":                 "this is a limit of all together: set limits.tcp_idle at the top",
	"control":                  "is a port of rdmad itself: set limits.control at the top",
	"metrics":                  "is a port of rdmad itself: set limits.metrics at the top",
	"memory":                   "listeners share one budget: set limits.memory at the top",
}

func (c *Config) validateLimits(d *document, _ Options) {
	for key, l := range map[string]*port.Limits{"limits.control": &c.Limits.Control, "limits.metrics": &c.Limits.Metrics} {
		if bad, ok := errors.AsType[*port.LimitError](l.Check()); ok {
			d.fail(key+"."+bad.Limit, "%s", bad.Reason)
		}
	}
	if d.given("limits.metrics.reserved") {
		d.fail("limits.metrics.reserved", "the metrics port has no admins, so it keeps no connections for them; leave it out")
	}
}
