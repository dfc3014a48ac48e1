package port

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// Limits are an operator's limits for the connections of one of rdmad's own ports. 0 means
// the default.
type Limits struct {
	Connections        int `mapstructure:"connections" range:"1..65536" doc:"maximum connections of the port"`
	ConnectionsPerPeer int `mapstructure:"connections_per_peer" range:"1..65536" doc:"maximum connections of the port from one user, certificate or address"`
	// Reserved connections are for admins.
	Reserved int `mapstructure:"reserved" range:"1..65536" doc:"connections of the port that are reserved for admins"`
	// Idle is the time without use after which a connection is closed.
	Idle time.Duration `mapstructure:"idle" range:"1s..720h" doc:"time without a request after which rdmad closes a connection"`
}

// OwnLimits are the limits of rdmad's own ports.
type OwnLimits struct {
	Control, Metrics Limits
}

// ControlConnections is the default of the control plane's connections.
const ControlConnections = 256

// LimitError is a limit that does not go with others.
type LimitError struct {
	Limit  string // as in the configuration file
	Reason string
}

func (e *LimitError) Error() string { return e.Limit + ": " + e.Reason }

// CheckReserved returns a *LimitError if the control plane's limits leave no connection for
// clients that are no admins.
func (l *Limits) CheckReserved() error {
	if total := cmp.Or(l.Connections, ControlConnections); l.Reserved > 0 && l.Reserved >= total {
		return &LimitError{"reserved", fmt.Sprintf("%d of %d connections leaves none for other clients", l.Reserved, total)}
	}
	return nil
}

// Over returns the limits d with the values that l sets. A smaller port keeps its
// proportions.
func (l Limits) Over(d connlimit.Limits) connlimit.Limits {
	d.Total = cmp.Or(l.Connections, d.Total)
	d.PerKey = cmp.Or(l.ConnectionsPerPeer, min(d.PerKey, max(d.Total/4, 1)))
	d.Reserved = cmp.Or(min(l.Reserved, d.Total-1), min(d.Reserved, d.Total/4))
	d.Idle = cmp.Or(l.Idle, d.Idle)
	return d
}
