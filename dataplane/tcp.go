package dataplane

import (
	"fmt"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// The range of TCPLimits.Idle.
const (
	MinTCPIdle = 10 * time.Second
	MaxTCPIdle = 24 * time.Hour
)

// TCPLimits bounds the TCP connections of all services together, and the idle time of these
// and of connectors' clients. 0 means the default of package rpctcp.
type TCPLimits struct {
	Connections int
	// ConnectionsPerPeer bounds the connections of one IPv4 address or one IPv6 /64.
	ConnectionsPerPeer int
	Idle               time.Duration
}

// TCPIdleError means that TCPLimits.Idle is out of range.
type TCPIdleError struct{ Value time.Duration }

func (e *TCPIdleError) Error() string { return "tcp_idle: " + e.Reason() }

// Reason returns the error without the name of the limit.
func (e *TCPIdleError) Reason() string {
	return fmt.Sprintf("%v is out of range %v..%v", e.Value, MinTCPIdle, MaxTCPIdle)
}

// Check returns a *LimitError or a *TCPIdleError for the first limit out of range, or nil.
func (l *TCPLimits) Check() error {
	if err := checkCounts(count{"tcp_connections", l.Connections}, count{"tcp_connections_per_peer", l.ConnectionsPerPeer}); err != nil {
		return err
	}
	if l.Idle != 0 && (l.Idle < MinTCPIdle || l.Idle > MaxTCPIdle) {
		return &TCPIdleError{l.Idle}
	}
	return nil
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
// until they are idle and others need their places. The error is that of Check.
func (d *Dataplane) SetTCPLimits(l TCPLimits) error {
	if err := l.Check(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tcpLimits = l
	d.tcp.SetLimits(d.tcpTableLocked())
	for _, k := range d.connectors {
		k.places.SetLimits(k.table())
	}
	return nil
}
