package dataplane

import "fmt"

// Limits of the whole data plane in force when its Config leaves them 0. Of
// one peer's connections there is no default limit.
const (
	DefaultMaxConnections = 4096
	DefaultMaxHandshakes  = 256
)

// DefaultListenerHandshakes bounds the handshakes of a listener whose Limits
// leave it 0.
const DefaultListenerHandshakes = 64

// MaxLimit is the largest value of a limit.
const MaxLimit = 1 << 16

// Limits bound connections, of the whole data plane or of one listener; a
// connection needs room in both. 0 is the default, or no limit where there is
// no default.
type Limits struct {
	// Connections being made or up. Peers over it are rejected.
	Connections int `json:"connections,omitempty"`
	// ConnectionsPerPeer is the same for those of one address.
	ConnectionsPerPeer int `json:"connections_per_peer,omitempty"`
	// Handshakes are connections being made at once. Peers over it wait in
	// the provider's bounded queue.
	Handshakes int `json:"handshakes,omitempty"`
}

// LimitError is a limit out of range.
type LimitError struct {
	Limit string // connections, connections_per_peer or handshakes
	Value int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %d is out of range 0..%d", e.Limit, e.Value, MaxLimit)
}

// Check says whether every limit is in range; the error is a *LimitError.
func (l *Limits) Check() error {
	for _, c := range []LimitError{
		{"connections", l.Connections},
		{"connections_per_peer", l.ConnectionsPerPeer},
		{"handshakes", l.Handshakes},
	} {
		if c.Value < 0 || c.Value > MaxLimit {
			return &c
		}
	}
	return nil
}

// withDefaults fills in what a data plane or a listener needs.
func (l Limits) withDefaults(connections, handshakes int) Limits {
	if l.Connections == 0 {
		l.Connections = connections
	}
	if l.Handshakes == 0 {
		l.Handshakes = handshakes
	}
	return l
}
