package settings

import (
	"fmt"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Peer is what is known of the other end of a connection, and of the device.
// Sizes are in bytes.
type Peer struct {
	Target bool // it answers our calls: it is the target of a connector

	Bound        uint32 // of our Sends on this connection
	Receive      uint32 // what it takes; it may be more
	Invalidation bool   // its STags may be invalidated
	Configured   bool   // it spoke CCP
	Pads         bool   // it sent RDMA_MSGP
	PadTaken     bool   // and may
	Callable     bool   // calls to the client can be made
	Version      int    // spoken, or to be offered
	Agreed       bool   // for the connection's life
	Receives     uint32 // size of ours

	// KeepsReceives is how long without a connection it may keep receives of an
	// earlier size; 0 when it keeps none. Refused: it had none for a larger Send.
	KeepsReceives time.Duration
	Refused       bool

	Told Told // as characteristics

	Device           string // its name
	NoWindows        bool   // it has none
	NoSendInvalidate bool   // it can't
}

// Told is what the ends of a connection told each other as characteristics.
type Told struct {
	Spoken       bool // the peer has the extension
	Lacks        bool // it said that it does not
	Asks         bool // it asks for smaller receives when told to
	Invalidation bool // its STags may be invalidated
	Receives     uint32
	RTR          rpcrdma2.RTR
	// Both have receives with target segments, and told so.
	OwnTargets, Targets bool
}

// Held says, for operators, why the peer gets no larger Sends although it takes
// them: it may keep smaller receives. It is "" when the peer gets them.
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
