// Package placement implements send-based direct data placement (rtrext §3.3). It lays out
// items in Sends so that each lands in target segments of the peer's receive buffers, finds
// items in our own receives, and checks what a request may direct and a response may
// answer.
//
// It touches no memory and uses no verbs. It computes with lengths, offsets and segments.
// All sizes are in bytes.
//
// The caller must:
//
//   - treat every *Error as the peer's fault (XMTERR), and a peer's buffer without a valid
//     Structure as one without targets;
//   - limit the number of transmissions of a group before it gives them.
package placement

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Limits of a receive buffer's structure.
const (
	// MaxLength is the largest receive.
	MaxLength = 256 << 10
	// MaxTargets is the largest number of target segments of one receive.
	MaxTargets = 64
	// MaxTransmissions is the largest number of transmissions of one group.
	MaxTransmissions = 32
)

// ErrStructure means that a buffer's structure is invalid or exceeds our limits.
var ErrStructure = errors.New("placement: structure of the receive buffer")

// Error is a fault in a peer's transmission group, as XMTERR reports it (rtrext §9.5).
type Error struct {
	Code             rpcrdma2.XmtErrCode // BadOffset, BadTarget or BadPayload
	Actual, Min, Max uint32
	Transmission     int // number, within the group
}

func (e *Error) Error() string {
	return fmt.Sprintf("placement: code %d, %d in transmission %d, valid are %d to %d", e.Code, e.Actual, e.Transmission, e.Min, e.Max)
}
