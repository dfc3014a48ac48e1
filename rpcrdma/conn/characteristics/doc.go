// Package characteristics implements the transport characteristics of version 2 (rtrext
// §4): what each end announces about itself with INIT, REQUEST, RESPOND and UPDATE, and the
// limits that both ends keep because of it. Each role has a State for this. The
// characteristics of a connection are those of the roles of its forward direction.
//
// The package sends nothing and counts no credits. Next returns the operation to send, and
// the role sends it.
//
// The caller must:
//
//   - give each operation of the peer to Begun, Learn, Requested or Responded, and an
//     error that answers one of ours to Refused;
//   - call Posted when receives of another size were posted;
//   - respect PeerReceive when sending, and Planned when it plans what the peer may send.
//
// A receive is always posted for the messages of these operations. A requester's INIT and
// REQUEST take a credit, and their answer uses the receive of that credit. All others use
// credit.Slack receives: at most one UPDATE and one REQUEST or RESPOND are not yet known to
// have arrived. The answer to a later REQUEST, which may be empty, shows that an UPDATE has
// arrived.
package characteristics

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

var (
	// ErrLateInit means that an INIT is not its sender's first message.
	ErrLateInit = errors.New("characteristics: INIT is not the first message")
	// errBehind means that bytes follow an operation that has no payload.
	errBehind = errors.New("characteristics: bytes behind an operation without payload")
	// errValues means that the peer announces impossible characteristics.
	errValues = errors.New("characteristics: impossible values")
	// errFixed means that the peer changed a characteristic that it declared fixed.
	errFixed = errors.New("characteristics: a fixed characteristic changed")
)

// LeastReceive is the smallest receive size that a peer may announce, in bytes: what every
// peer of any version takes (RFC 8166 §3.3.2).
const LeastReceive = 1024

// MaxNext is how many operations one event can cause: an UPDATE and a REQUEST.
const MaxNext = 2

// Config is the part of the settings that concerns characteristics.
type Config struct {
	// On turns the extension on.
	On bool
	// Receives is the receive size that the settings ask for, in bytes.
	Receives uint32
	// RTR lists which transmissions are accepted and made. Transmissions, if not 0, limits
	// the transmissions of a request that we accept, and of a response that we make.
	RTR           rpcrdma2.RTR
	Transmissions uint32
	// Places means that Sends may place items.
	Places bool
	// Invalidation means that the peer may invalidate our STags. Backward means that calls
	// in the reverse direction are accepted.
	Invalidation, Backward bool
}

// Values returns our characteristics for these settings and receives of receive bytes.
func (c *Config) Values(receive uint32) rpcrdma2.Values {
	v := rpcrdma2.DefaultValues()
	v.ReceiveSize, v.RTR = receive, c.RTR
	if c.Transmissions > 0 {
		v.RequestReceive, v.ResponseSend = c.Transmissions, c.Transmissions
	}
	return v
}

// Of reports whether an operation is one of INIT to UPDATE.
func Of(t rpcrdma2.OptType) bool { return t >= rpcrdma2.OptInit && t <= rpcrdma2.OptUpdate }

// Decode decodes the body of an operation without payload.
func Decode(body rpcrdma2.Body, info, payload []byte) error {
	if err := body.Decode(info); err != nil {
		return err
	}
	if len(payload) > 0 {
		return errBehind
	}
	return nil
}
