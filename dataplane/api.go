package dataplane

import (
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma"
)

// ConnKey says which scopes apply to a connection: everything, its listener,
// its peer's address, itself.
type ConnKey struct {
	Listener string
	Peer     netip.Addr
	ID       string // unique for the daemon's life, never used again
}

// Resolver gives the effective settings of a connection, new or up; of a key with
// a listener alone, those of its connections in general. It is called from any
// goroutine and must not block.
type Resolver func(ConnKey) *rpcrdma.Settings

// ConnInfo is a connection as operators see it: what is in force now and
// what it has done so far.
type ConnInfo struct {
	ConnKey
	PeerPort netip.AddrPort
	// Client is the TCP client that a connector made the connection for;
	// invalid for connections that a listener accepted.
	Client   netip.AddrPort
	Provider string
	Service  string
	State    string // up, draining
	InFlight int    // calls that the service has not answered yet
	rpcrdma.Info
	// SendHeld says why Sends to the peer are smaller than the settings want
	// and it takes; "" when it is not. Connection tells it, Connections does not.
	SendHeld string
	Stats    rpcrdma.Stats
	Sizes    rpcrdma.Sizes // of calls and replies
	// Settings are the effective settings last applied.
	Settings *rpcrdma.Settings
}

// ListenerInfo describes a listener.
type ListenerInfo struct {
	Name, Provider, Service string
	Address                 netip.AddrPort // as bound
	State                   string         // up; degraded; draining while it is being removed
	Trouble                 string         // with StateDegraded: why
	Connections             int
	Accepted                uint64
	Refused                 uint64 // handshakes and connections refused, for all reasons
	Refusals                Refusals
	Evictions               connlimit.Counts // connections that lost their places, by reason
	Since                   time.Time
	Limits                  Limits // defaults filled in
	Access                  Access // not to be changed
}

// EventType says what happened to a connection.
type EventType uint8

// What happens to connections.
const (
	ConnUp EventType = iota
	ConnDown
	ConnChanged // settings applied, or it is being drained
)

// Event is a change of a connection, for watchers.
type Event struct {
	Type   EventType
	Time   time.Time
	Conn   ConnInfo
	Reason string // ConnDown: why, and whether we did it
}
