package dataplane

import (
	"cmp"
	"fmt"
	"time"
)

// Limits of the whole data plane when its Config leaves them 0. A peer may have the
// connections of 16 mounts with nconnect=16, but not all places.
const (
	DefaultMaxConnections     = 4096
	DefaultConnectionsPerPeer = 256
	DefaultMaxHandshakes      = 256
)

// halfOpenTime is how long a connection may be up without a first call. Clients
// connect in order to make one.
const halfOpenTime = 2 * time.Minute

// DefaultListenerHandshakes bounds the handshakes of a listener whose Limits
// leave it 0.
const DefaultListenerHandshakes = 64

// MaxLimit is the largest value of a limit.
const MaxLimit = 1 << 16

// Limits bound connections, of the whole data plane or of one listener; a
// connection needs room in both. 0 is the default, or no limit where there is
// no default.
type Limits struct {
	// Connections being made or up. For a peer over it the idlest connection
	// is closed; when none is idle the peer is rejected.
	Connections int `mapstructure:"connections" range:"1..65536" api:"admission.max_connections" doc:"connections that are being made or up"`
	// ConnectionsPerPeer limits those of one IPv4 address or one IPv6 /64.
	ConnectionsPerPeer int `mapstructure:"connections_per_peer" range:"1..65536" api:"admission.max_connections_per_peer" doc:"those of one peer: an IPv4 address or an IPv6 /64"`
	// Handshakes are connections being made at once. Peers over it wait in
	// the provider's bounded queue.
	Handshakes int `mapstructure:"handshakes" range:"1..65536" api:"admission.max_handshakes" doc:"connections that are being made at the same time"`
	// Idle is the time without a call after which a connection is closed; 0 means
	// never.
	Idle time.Duration `mapstructure:"idle" range:"1s..720h" api:"admission.idle" doc:"time without a call after which a connection is closed"`
}

// MaxIdle is the largest value of Limits.Idle.
const MaxIdle = 30 * 24 * time.Hour

// LimitError is a limit out of range.
type LimitError struct {
	Limit string // connections, connections_per_peer, handshakes or idle
	Value int    // of idle, in seconds
	Most  int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %d is out of range 0..%d", e.Limit, e.Value, e.Most)
}

// Check says whether every limit is in range; the error is a *LimitError.
func (l *Limits) Check() error {
	for _, c := range []LimitError{
		{"connections", l.Connections, MaxLimit},
		{"connections_per_peer", l.ConnectionsPerPeer, MaxLimit},
		{"handshakes", l.Handshakes, MaxLimit},
		{"idle", int(l.Idle / time.Second), int(MaxIdle / time.Second)},
	} {
		if c.Value < 0 || c.Value > c.Most {
			return &c
		}
	}
	return nil
}

// planeDefaults fills in what a data plane needs.
func (l Limits) planeDefaults() Limits {
	l.Connections = cmp.Or(l.Connections, DefaultMaxConnections)
	l.ConnectionsPerPeer = cmp.Or(l.ConnectionsPerPeer, DefaultConnectionsPerPeer)
	l.Handshakes = cmp.Or(l.Handshakes, DefaultMaxHandshakes)
	return l
}

// listenerDefaults fills in what a listener needs.
func (l Limits) listenerDefaults() Limits {
	l.Handshakes = cmp.Or(l.Handshakes, DefaultListenerHandshakes)
	return l
}
