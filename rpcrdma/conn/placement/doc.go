// Package placement is send-based direct data placement (rtrext §3.3): how
// items are laid out in Sends so that each lands in target segments of the
// peer's receive buffers, where they are found in receives of our own, and
// what a request may direct and a response may answer.
//
// It touches no memory and knows no verbs: it computes with lengths, offsets
// and segments. All sizes are in bytes.
//
// A caller's duties:
//
//   - treat every *Error as the peer's (XMTERR), and a Structure that can't be
//     had of a peer's buffer as one without targets;
//   - bound the number of transmissions of a group before it gives them.
package placement

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Bounds of a receive buffer's structure.
const (
	// MaxLength is the most bytes of one receive.
	MaxLength = 256 << 10
	// MaxTargets is the most target segments of one receive.
	MaxTargets = 64
	// MaxTransmissions is the most transmissions of one group.
	MaxTransmissions = 32
)

// ErrStructure means that a buffer's structure makes no sense, or is more
// than we look at.
var ErrStructure = errors.New("placement: structure of the receive buffer")

// Error is what a peer's transmission group got wrong, as XMTERR tells it
// (rtrext §9.5).
type Error struct {
	Code             rpcrdma2.XmtErrCode // BadOffset, BadTarget or BadPayload
	Actual, Min, Max uint32
	Transmission     int // of the group, in which it was found
}

func (e *Error) Error() string {
	what := "payload length"
	switch e.Code {
	case rpcrdma2.BadOffset:
		what = "offset"
	case rpcrdma2.BadTarget:
		what = "target segment"
	}
	return fmt.Sprintf("placement: %s %d in transmission %d, valid are %d to %d", what, e.Actual, e.Transmission, e.Min, e.Max)
}
