package spec

import (
	"errors"
	"strings"
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

// TCP returns the limits of services on TCP.
func (l *Limits) TCP() dataplane.TCPLimits {
	return dataplane.TCPLimits{Connections: l.TCPConnections, ConnectionsPerPeer: l.TCPConnectionsPerPeer, Idle: l.TCPIdle}
}

// Ports returns the limits of rdmad's own ports.
func (l *Limits) Ports() port.OwnLimits {
	return port.OwnLimits{Control: l.Control, Metrics: l.Metrics}
}

// Check returns an error if a limit is out of range: an *Error, or Errors if there are several.
func (l *Limits) Check() error {
	var all Errors
	tcp := l.TCP()
	for _, err := range []error{l.Limits.Check(), tcp.Check(), dataplane.CheckMemory(int64(l.Memory))} {
		if err != nil {
			field, text, _ := strings.Cut(err.Error(), ": ")
			if errors.As(err, new(*dataplane.MemoryError)) {
				text += " bytes"
			}
			all = append(all, &Error{field, text})
		}
	}
	for _, p := range []struct {
		name string
		*port.Limits
	}{{"control", &l.Control}, {"metrics", &l.Metrics}} {
		if bad, ok := errors.AsType[*port.LimitError](p.Check()); ok {
			all = append(all, &Error{p.name + "." + bad.Limit, bad.Reason})
		}
	}
	if l.Metrics.Reserved != 0 {
		all = append(all, &Error{"metrics.reserved", "the metrics port has no admins, so it keeps no connections for them; only the control plane does"})
	}
	return all.err()
}
