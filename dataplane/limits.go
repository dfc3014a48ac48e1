package dataplane

import (
	"cmp"
	"time"
)

// Default limits of the whole data plane. A peer may have the connections of 16 mounts with
// nconnect=16, but not all places.
const (
	DefaultMaxConnections     = 4096
	DefaultConnectionsPerPeer = 256
	DefaultMaxHandshakes      = 256
)

// halfOpenTime is how long a connection may be up without a first call. Clients normally
// call as soon as they are connected.
const halfOpenTime = 2 * time.Minute

// DefaultListenerHandshakes is the default limit of a listener's handshakes.
const DefaultListenerHandshakes = 64

// Limits bounds connections, of the whole data plane or of one listener. A connection needs
// room in both. 0 means the default, or no limit if there is no default. Package spec checks the
// ranges.
type Limits struct {
	// Connections bounds the connections being made or up. At the limit, a new
	// connection replaces the one that has been idle longest. If none is idle, the new
	// one is refused.
	Connections int `mapstructure:"connections" range:"1..65536" api:"admission.max_connections" doc:"maximum connections that are being made or up"`
	// ConnectionsPerPeer bounds the connections of one IPv4 address or one IPv6 /64.
	ConnectionsPerPeer int `mapstructure:"connections_per_peer" range:"1..65536" api:"admission.max_connections_per_peer" doc:"maximum connections of one peer: an IPv4 address or an IPv6 /64"`
	// Handshakes bounds the connections being made at one time. Further peers wait in
	// the provider's bounded queue.
	Handshakes int `mapstructure:"handshakes" range:"1..65536" api:"admission.max_handshakes" doc:"maximum connections that are being made at the same time"`
	// Idle is the time without a call after which a connection is closed; 0 means never.
	Idle time.Duration `mapstructure:"idle" range:"1s..720h" api:"admission.idle" doc:"time without a call after which rdmad closes a connection"`
}

// planeDefaults are the default limits of a data plane.
var planeDefaults = Limits{Connections: DefaultMaxConnections, ConnectionsPerPeer: DefaultConnectionsPerPeer, Handshakes: DefaultMaxHandshakes}

// withDefaults returns l with zeros replaced by def.
func (l Limits) withDefaults(def Limits) Limits {
	l.Connections = cmp.Or(l.Connections, def.Connections)
	l.ConnectionsPerPeer = cmp.Or(l.ConnectionsPerPeer, def.ConnectionsPerPeer)
	l.Handshakes = cmp.Or(l.Handshakes, def.Handshakes)
	return l
}
