package dataplane

import (
	"fmt"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// What TCPLimits.Idle may be.
const (
	MinTCPIdle = 10 * time.Second
	MaxTCPIdle = 24 * time.Hour
)

// TCPLimits bound the TCP connections of services, all of them together, and how
// long these and the clients of connectors may be idle. 0 is the default, that of
// package rpctcp.
type TCPLimits struct {
	Connections int
	// ConnectionsPerPeer is the most of one address, of IPv6 of one /64.
	ConnectionsPerPeer int
	Idle               time.Duration
}

// TCPIdleError is a TCPLimits.Idle out of range.
type TCPIdleError struct{ Value time.Duration }

func (e *TCPIdleError) Error() string { return "tcp_idle: " + e.Reason() }

// Reason is the error without what it is about.
func (e *TCPIdleError) Reason() string {
	return fmt.Sprintf("%v is out of range %v..%v", e.Value, MinTCPIdle, MaxTCPIdle)
}

// Check says whether every limit is in range; the error is a *LimitError or a
// *TCPIdleError.
func (l *TCPLimits) Check() error {
	for _, c := range []LimitError{
		{"tcp_connections", l.Connections, MaxLimit},
		{"tcp_connections_per_peer", l.ConnectionsPerPeer, MaxLimit},
	} {
		if c.Value < 0 || c.Value > MaxLimit {
			return &c
		}
	}
	if l.Idle != 0 && (l.Idle < MinTCPIdle || l.Idle > MaxTCPIdle) {
		return &TCPIdleError{l.Idle}
	}
	return nil
}

// table gives the limits as a table takes them, defaults filled in.
func (l TCPLimits) table() connlimit.Limits {
	return rpctcp.DefaultLimits(connlimit.Limits{Total: l.Connections, PerKey: l.ConnectionsPerPeer, Idle: l.Idle})
}

// WithDefaults fills in what l leaves 0.
func (l TCPLimits) WithDefaults() TCPLimits {
	t := l.table()
	return TCPLimits{Connections: t.Total, ConnectionsPerPeer: t.PerKey, Idle: t.Idle}
}

// TCPPlaces has the places of the TCP connections of services.
func (d *Dataplane) TCPPlaces() *connlimit.Table { return d.tcp }

// TCPLimits are those asked for, defaults filled in.
func (d *Dataplane) TCPLimits() TCPLimits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tcpLimits.WithDefaults()
}

// SetTCPLimits changes the limits. Connections that are up and over a lowered
// limit stay until they are idle and newcomers need their places. The error is
// that of Check.
func (d *Dataplane) SetTCPLimits(l TCPLimits) error {
	if err := l.Check(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tcpLimits = l
	d.tcp.SetLimits(d.tcpTableLocked())
	for _, k := range d.connectors {
		k.followLocked()
	}
	return nil
}
