package transmission

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Gathering is a transmission group as it arrives. One message of a direction
// arrives at a time, so that a role has one. The transmissions stay in their receives
// until the group has ended: count bounds them.
type Gathering struct {
	// Most is the most bytes of a payload stream. It is set once.
	Most int

	Open      bool // a group is arriving
	XID       uint32
	Direction rpcrdma2.Direction
	Count     uint32 // transmissions of the group
	Came      uint32 // of them
	Credits   uint32 // of the last that came
	Size      int    // bytes of the payload stream
	Recvs     []uint32
	// Parts are the payload stream, one part for each transmission.
	Parts [][]byte

	// Wrong is the fault that XMTERR reports, if Bad. The rest of the group is taken
	// and not read: its receives and credits are the group's.
	Bad   bool
	Wrong rpcrdma2.XmtError

	first rpcrdma2.OptType
	// sends are what came, as far as items are found in it, bodies the bytes
	// after the headers.
	sends  []placement.Received
	bodies [][]byte
}

// Start begins with the first transmission.
func (g *Gathering) Start(h *rpcrdma2.Header, first rpcrdma2.OptType, count, length, recv uint32, payload []byte) {
	*g = Gathering{
		Most: g.Most, Open: true, XID: h.XID, Direction: h.Direction, first: first, Count: count,
		Recvs: g.Recvs[:0], Parts: g.Parts[:0], sends: g.sends[:0], bodies: g.bodies[:0],
	}
	g.take(h, length, recv, payload)
}

// take takes a transmission that is the next one.
func (g *Gathering) take(h *rpcrdma2.Header, length, recv uint32, payload []byte) {
	number := g.Came
	g.Came, g.Credits = g.Came+1, h.Credits
	g.Recvs = append(g.Recvs, recv)
	switch most := min(len(payload), g.Most-g.Size); {
	case g.Bad:
	case length > uint32(most):
		g.refuse(h, number, rpcrdma2.XmtError{Code: rpcrdma2.BadPayload, Actual: length, Max: uint32(most)})
	default:
		g.Size += int(length)
		g.Parts = append(g.Parts, payload[:length:length])
		header := rpcrdma2.OptionalSize(len(h.Info))
		g.sends = append(g.sends, placement.Received{Header: header, Payload: int(length), Length: header + len(payload)})
		g.bodies = append(g.bodies, payload)
	}
}

// Add takes an XMTCONT while a group is arriving.
func (g *Gathering) Add(h *rpcrdma2.Header, recv uint32, payload []byte) {
	var c rpcrdma2.XmtCont
	if err := c.Decode(h.Info); err != nil {
		g.refuse(h, g.Came, rpcrdma2.XmtError{Code: rpcrdma2.BadPayload, Actual: uint32(len(h.Info)), Min: uint32(c.Size()), Max: uint32(c.Size())})
	}
	switch {
	case g.Bad:
	case h.XID != g.XID:
		g.refuse(h, c.Number, rpcrdma2.XmtError{Code: rpcrdma2.BadXID, Expected: g.XID, Actual: h.XID})
	case c.Number != g.Came:
		g.refuse(h, c.Number, rpcrdma2.XmtError{Code: rpcrdma2.BadSequence, Expected: g.Came, Actual: c.Number})
	case c.Initial != g.first:
		g.refuse(h, c.Number, rpcrdma2.XmtError{Code: rpcrdma2.BadOptType, Expected: uint32(g.first), Actual: uint32(c.Initial)})
	}
	g.take(h, c.PayloadLength, recv, payload)
	if g.Bad && c.Number >= g.Count-1 { // its sender is at the end
		g.Came = g.Count
	}
}

// Interrupt notes that another message came before the group's end, with header h
// and in direction dir; operation says that it is an optional operation. It may be a
// message of the other direction, whose XIDs are others.
func (g *Gathering) Interrupt(h *rpcrdma2.Header, dir rpcrdma2.Direction, operation bool) {
	e := rpcrdma2.XmtError{Code: rpcrdma2.BadHeaderType, Expected: uint32(rpcrdma2.Optional), Actual: uint32(h.Proc)}
	number := uint32(0)
	switch {
	case !operation && h.Proc == rpcrdma2.Optional: // of the type that belongs here, but malformed
		e = rpcrdma2.XmtError{Code: rpcrdma2.BadContinuation}
	case !operation:
	case h.Option != rpcrdma2.OptXmtCont:
		e = rpcrdma2.XmtError{Code: rpcrdma2.BadOptType, Expected: uint32(rpcrdma2.OptXmtCont), Actual: uint32(h.Option)}
	default:
		e = rpcrdma2.XmtError{Code: rpcrdma2.BadXID, Expected: g.XID, Actual: h.XID}
		var c rpcrdma2.XmtCont
		if c.Decode(h.Info) == nil {
			number = c.Number
		}
	}
	g.refuseAs(rpcrdma2.Transmission{XID: h.XID, Direction: dir, Number: number}, true, e)
	g.Came = g.Count
}

// InterruptShort notes that a message too short for a header came before the group's
// end. It has no XID to be named by.
func (g *Gathering) InterruptShort() {
	g.refuseAs(rpcrdma2.Transmission{XID: g.XID, Direction: g.Direction}, false, rpcrdma2.XmtError{Code: rpcrdma2.BadContinuation})
	g.Came = g.Count
}

// refuse notes what is wrong about the transmission that h is the header of.
func (g *Gathering) refuse(h *rpcrdma2.Header, number uint32, e rpcrdma2.XmtError) {
	g.refuseAs(rpcrdma2.Transmission{XID: h.XID, Direction: g.Direction, Number: number}, h.XID != g.XID || number > 0, e)
}

// refuseAs notes what is wrong about a transmission, which is the group's first
// or comes after it. The first fault is the one reported.
func (g *Gathering) refuseAs(bad rpcrdma2.Transmission, after bool, e rpcrdma2.XmtError) {
	if g.Bad {
		return
	}
	g.Bad, g.Wrong = true, e
	g.Wrong.Bad = bad
	if after {
		g.Wrong.HasLead, g.Wrong.Lead = true, rpcrdma2.Transmission{XID: g.XID, Direction: g.Direction}
	}
}

// Whole says that nothing of the group is to come any more.
func (g *Gathering) Whole() bool { return g.Came >= g.Count }

// Append appends the payload stream.
func (g *Gathering) Append(dst []byte) []byte {
	for _, p := range g.Parts {
		dst = append(dst, p...)
	}
	return dst
}

// End forgets the group; its receives are the caller's to give back.
func (g *Gathering) End() {
	clear(g.Parts)
	clear(g.bodies)
	g.Open, g.Parts, g.Recvs = false, g.Parts[:0], g.Recvs[:0]
}

// Error says what is wrong with a transmission group.
type Error struct {
	rpcrdma2.XmtError
	Told bool // by the peer, of a group of ours; else we told it
}

var groupFaults = map[rpcrdma2.XmtErrCode]string{
	rpcrdma2.BadHeaderType:   "header type",
	rpcrdma2.BadOptType:      "operation",
	rpcrdma2.BadContinuation: "nothing to continue",
	rpcrdma2.BadSequence:     "transmission number",
	rpcrdma2.BadXID:          "XID",
	rpcrdma2.BadOffset:       "offset",
	rpcrdma2.BadTarget:       "target buffer segment",
	rpcrdma2.BadPayload:      "payload length",
}

func (e *Error) Error() string {
	whose := "peer's"
	if e.Told {
		whose = "our"
	}
	return fmt.Sprintf("%s transmission group was refused: %s", whose, groupFaults[e.Code])
}
