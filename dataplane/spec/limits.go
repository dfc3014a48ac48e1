package spec

import (
	"errors"
	"maps"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// Limits bounds the connections of all listeners together, the connections of services on TCP
// and of rdmad's own ports, and the memory of the process. 0 means the default.
type Limits struct {
	dataplane.Limits `mapstructure:",squash"`

	Memory                Size          `mapstructure:"memory" api:"max_memory" range:"16MiB..1TiB" doc:"maximum memory of the process"`
	TCPConnections        int           `mapstructure:"tcp_connections" api:"max_tcp_connections" range:"1..65536" doc:"maximum TCP connections of all services together"`
	TCPConnectionsPerPeer int           `mapstructure:"tcp_connections_per_peer" api:"max_tcp_connections_per_peer" range:"1..65536" doc:"maximum TCP connections of services from one IPv4 address or one IPv6 /64"`
	TCPIdle               time.Duration `mapstructure:"tcp_idle" range:"10s..24h" doc:"time without a call after which rdmad closes a TCP connection"`

	// Control and Metrics are the limits of rdmad's own ports.
	Control port.Limits `mapstructure:"control"`
	Metrics port.Limits `mapstructure:"metrics"`
}

// NoLimit is the one field of Limits that has no value: the metrics port has no admins.
const NoLimit = "metrics.reserved"

// TCP returns the limits of services on TCP.
func (l *Limits) TCP() dataplane.TCPLimits {
	return dataplane.TCPLimits{Connections: l.TCPConnections, ConnectionsPerPeer: l.TCPConnectionsPerPeer, Idle: l.TCPIdle}
}

// Ports returns the limits of rdmad's own ports.
func (l *Limits) Ports() port.OwnLimits {
	return port.OwnLimits{Control: l.Control, Metrics: l.Metrics}
}

// Check returns an error if a limit is out of range: an *Error, or Errors if there are several.
func (l *Limits) Check() error { return Check(l) }

// problems reports limits that do not go together.
func (l *Limits) problems(report func(key, text string)) {
	if bad, ok := errors.AsType[*port.LimitError](l.Control.CheckReserved()); ok {
		report("control."+bad.Limit, bad.Reason)
	}
	if l.Metrics.Reserved != 0 {
		report(NoLimit, "the metrics port has no admins, so it keeps no connections for them; only the control plane does")
	}
}

// Over returns the limits with the changes of operators, and the part of the changes that it
// used. The part lacks changes that are out of range or conflict with the other limits; left
// has the reasons. A damaged delta is an error.
func (l Limits) Over(changed Delta) (now Limits, part Delta, left, err error) {
	part = maps.Clone(changed)
	var all Errors
	for {
		now = l
		if err := part.Apply(&now); err != nil {
			return now, part, nil, err
		}
		before := len(part)
		for key, text := range Problems(&now) {
			all = append(all, &Error{key, text})
			delete(part, key)
		}
		switch len(part) {
		case before:
			err := now.Check()
			if err == nil || before == 0 { // the file's own limits are checked elsewhere
				return now, part, all.err(), nil
			}
			part = nil // a limit of the file does not go with a changed one
		}
	}
}
