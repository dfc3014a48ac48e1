package dataplane

import (
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// TCPLimits bounds the TCP connections of all services together, and the idle time of these
// and of connectors' clients. 0 means the default of package rpctcp.
type TCPLimits struct {
	Connections int
	// ConnectionsPerPeer bounds the connections of one IPv4 address or one IPv6 /64.
	ConnectionsPerPeer int
	Idle               time.Duration
}

// table converts the limits for the connlimit table, with defaults filled in.
func (l TCPLimits) table() connlimit.Limits {
	return rpctcp.DefaultLimits(connlimit.Limits{Total: l.Connections, PerKey: l.ConnectionsPerPeer, Idle: l.Idle})
}

// WithDefaults returns l with zeros replaced by the defaults.
func (l TCPLimits) WithDefaults() TCPLimits {
	t := l.table()
	return TCPLimits{Connections: t.Total, ConnectionsPerPeer: t.PerKey, Idle: t.Idle}
}

// TCPPlaces returns the table of the TCP connections of all services.
func (d *Dataplane) TCPPlaces() *connlimit.Table { return d.tcp }

// TCPLimits returns the configured limits, with defaults filled in.
func (d *Dataplane) TCPLimits() TCPLimits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tcpLimits.WithDefaults()
}

// SetTCPLimits changes the limits. Connections that are up and over a lowered limit stay
// until they are idle and others need their places.
func (d *Dataplane) SetTCPLimits(l TCPLimits) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tcpLimits = l
	d.tcp.SetLimits(d.tcpTableLocked())
	for _, k := range d.connectors {
		k.places.SetLimits(k.table())
	}
}
