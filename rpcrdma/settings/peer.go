package settings

import (
	"fmt"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Peer is what is known about the other end of a connection, and about the device. Sizes
// are in bytes.
type Peer struct {
	Target bool // the target of a connector, which answers our calls

	Bound        uint32 // limit of our Sends on this connection
	Receive      uint32 // what the peer takes, which may be more
	Invalidation bool   // its STags may be invalidated
	Configured   bool   // it used CCP
	Pads         bool   // it sent RDMA_MSGP
	PadTaken     bool   // it may send RDMA_MSGP
	Callable     bool   // calls to the client can be made
	Version      int    // in use, or to be offered
	Agreed       bool   // Version is fixed for the connection's life
	Receives     uint32 // size of our receives

	// KeepsReceives is how long the peer, without a connection, may keep receives of an
	// earlier size; 0 means that it keeps none. Refused means that it had no receive for a
	// larger Send.
	KeepsReceives time.Duration
	Refused       bool

	Told Told // from its characteristics

	Device           string // its name
	NoWindows        bool   // it has no memory windows
	NoSendInvalidate bool   // it cannot send with invalidate
}

// Told is what the ends of a connection announced as characteristics.
type Told struct {
	Spoken       bool // the peer has the extension
	Lacks        bool // it reported that it does not have it
	Asks         bool // it asks for smaller receives when we want them
	Invalidation bool // its STags may be invalidated
	Receives     uint32
	RTR          rpcrdma2.RTR
	// Both ends have receives with target segments, and announced them.
	OwnTargets, Targets bool
}

// Held returns, for operators, why the peer gets no larger Sends although it takes them: it
// may keep smaller receives. It returns "" if the peer gets them.
func (p *Peer) Held() string {
	if p.KeepsReceives == 0 || p.Receive <= p.Bound {
		return ""
	}
	why := "this size was announced to the peer"
	if p.Refused {
		why = "the peer had no receive for a larger Send"
	}
	return fmt.Sprintf("held at %d bytes: %s, and it may keep receives of this size until it has had no connection for %v", p.Bound, why, p.KeepsReceives)
}
