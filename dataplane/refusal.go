package dataplane

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
)

// Refusal is why a connection did not come up.
type Refusal uint8

// Reasons to refuse a connection.
const (
	RefusedDenied      Refusal = iota // refused by allow and deny
	RefusedConnections                // limit of connections
	RefusedPerPeer                    // limit of connections of one address
	RefusedHandshake                  // the handshake failed or took too long
	RefusedStopping                   // the listener or the data plane is stopping
	RefusedService                    // the service can't serve it, for example without its upstream
	RefusedMemory                     // no registered memory is left for the connection
	refusals
)

var refusalNames = [refusals]string{"denied", "connections", "connections_per_peer", "handshake", "stopping", "service", "memory"}

// refusalWords are the reasons as peers get them. They name no other client and no upstream.
var refusalWords = [refusals]string{
	"the address has no access (allow, deny)",
	"all connections are in use (limits.connections)",
	"all connections of the address are in use (limits.connections_per_peer)",
	"too many connections are being made at once (limits.handshakes)",
	"the listener is stopping",
	"the service can't be used now",
	"no memory is left for connections (limits.memory)",
}

// String returns the refusal as metrics show it.
func (r Refusal) String() string { return refusalNames[r] }

// RefusedError is the reason why a connection did not come up.
type RefusedError struct {
	Refusal Refusal
	Text    string
}

func (e *RefusedError) Error() string { return e.Text }

// Refusals counts refused connections by Refusal.
type Refusals [refusals]uint64

// Sum returns the number of all refused connections.
func (r *Refusals) Sum() (n uint64) {
	for _, v := range r {
		n += v
	}
	return n
}

// refusalLog counts and logs the refused connections of a listener.
type refusalLog struct {
	counts [refusals]atomic.Uint64
}

func (r *refusalLog) snapshot() (out Refusals) {
	for i := range out {
		out[i] = r.counts[i].Load()
	}
	return out
}

// note counts and logs a refused connection.
func (r *refusalLog) note(log *slog.Logger, listener string, peer netip.AddrPort, why Refusal, reason string) {
	r.counts[why].Add(1)
	if why == RefusedStopping {
		return // rdmad does this itself, and has logged it
	}
	log.Warn("connection refused", "listener", listener, "peer", peer.String(), "reason", reason)
}
