// Package characteristics is the transport characteristics of version 2 (rtrext §4):
// what each end announces about itself with INIT, REQUEST, RESPOND and UPDATE, and
// the limits that both ends keep because of it. A State is that part of a role. The
// characteristics of a connection are those of its forward direction's roles.
//
// It sends nothing and counts no credits: Next gives the operation to send, and the
// role sends it.
//
// A caller's duties:
//
//   - give each operation of the peer to Begun, Learn, Requested or Responded, and
//     an error that answers ours to Refused;
//   - give Posted when receives of another size were posted;
//   - keep to PeerReceive when sending, and to Planned when it plans what the peer
//     may send.
//
// A message of these operations finds one of credit.Slack receives at its receiver: a
// requester's INIT and REQUEST take a credit, whose receive their answer finds. Of
// everything else there is at most one UPDATE and one REQUEST or RESPOND that is not
// known to have arrived. The answer to a later REQUEST, which may ask for nothing,
// shows that an UPDATE has arrived.
package characteristics

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

var (
	// ErrLateInit means that an INIT is not its sender's first message.
	ErrLateInit = errors.New("characteristics: INIT is not the first message")
	// errBehind means that something follows an operation that has no payload.
	errBehind = errors.New("characteristics: bytes behind an operation without payload")
	// errValues means that the peer announces characteristics that are impossible.
	errValues = errors.New("characteristics: impossible values")
	// errFixed means that the peer changed a characteristic that it had fixed.
	errFixed = errors.New("characteristics: a fixed characteristic changed")
)

// LeastReceive is the least receive size that a peer may announce, in bytes: what
// every peer of any version takes (RFC 8166 §3.3.2).
const LeastReceive = 1024

// MaxNext bounds the operations that one event leads to: an UPDATE and a REQUEST.
const MaxNext = 2

// Config is what the settings make of the characteristics.
type Config struct {
	// On turns the extension on.
	On bool
	// Receives is the receive size that the settings want, in bytes.
	Receives uint32
	// RTR says which transmissions are taken and made. Transmissions, when not 0, is
	// the most of them of a request that we take, and of a response that we make.
	RTR           rpcrdma2.RTR
	Transmissions uint32
	// Places says that items may be placed by Sends.
	Places bool
	// Invalidation says that the peer may invalidate our STags, Backward that calls
	// in the reverse direction are taken.
	Invalidation, Backward bool
}

// Values are the characteristics that the settings and receives of so many bytes
// make.
func (c *Config) Values(receive uint32) rpcrdma2.Values {
	v := rpcrdma2.DefaultValues()
	v.ReceiveSize, v.RTR = receive, c.RTR
	if c.Transmissions > 0 {
		v.RequestReceive, v.ResponseSend = c.Transmissions, c.Transmissions
	}
	return v
}

// Of says whether an operation is one of INIT to UPDATE.
func Of(t rpcrdma2.OptType) bool { return t >= rpcrdma2.OptInit && t <= rpcrdma2.OptUpdate }

// Decode decodes the body of an operation, behind which there is nothing.
func Decode(body rpcrdma2.Body, info, payload []byte) error {
	if err := body.Decode(info); err != nil {
		return err
	}
	if len(payload) > 0 {
		return errBehind
	}
	return nil
}
