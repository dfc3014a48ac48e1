package dataplane

import (
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

// ConnKey identifies the scopes that apply to a connection: everything, its listener, its
// peer's address, and the connection itself.
type ConnKey struct {
	Listener string
	Peer     netip.Addr
	ID       string // unique for the daemon's life, never used again
}

// Resolver returns the effective settings of a connection. For a key that has only a
// listener, it returns the settings of the listener's connections in general. It is called
// from any goroutine and must not block.
type Resolver func(ConnKey) *rpcrdma.Settings

// ConnInfo describes a connection for operators: the current state, and counters since the
// connection came up.
type ConnInfo struct {
	ConnKey
	PeerPort netip.AddrPort
	// Client is the TCP client for which a connector made the connection. It is invalid for
	// connections that a listener accepted.
	Client   netip.AddrPort
	Provider string
	Service  string
	State    string // up, draining
	InFlight int    // calls that the service has not answered yet
	rpcrdma.Info
	// SendHeld is why Sends to the peer are smaller than the settings and the peer allow,
	// or "" if they are not. Connection sets it, Connections does not.
	SendHeld string
	Stats    rpcrdma.Stats
	Sizes    rpcrdma.Sizes // of calls and replies
	// Settings are the effective settings last applied.
	Settings *rpcrdma.Settings
}

// EventType is the kind of an Event.
type EventType uint8

// Kinds of events.
const (
	ConnUp EventType = iota
	ConnDown
	ConnChanged // settings applied, or it is being drained
)

// Event is a change of a connection.
type Event struct {
	Type   EventType
	Time   time.Time
	Conn   ConnInfo
	Reason string // ConnDown: why, and whether rdmad ended it
}
