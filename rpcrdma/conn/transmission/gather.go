package transmission

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Gathering is a transmission group that is arriving. Only one message of a direction
// arrives at a time, so a role has one Gathering. The transmissions stay in their receives
// until the group has ended. Count limits them.
type Gathering struct {
	// Most is the largest payload stream, in bytes. It is set once.
	Most int

	Open      bool // a group is arriving
	XID       uint32
	Direction rpcrdma2.Direction
	Count     uint32 // transmissions of the group
	Came      uint32 // how many have arrived
	Credits   uint32 // of the last one that arrived
	Size      int    // length of the payload stream so far, in bytes
	Recvs     []uint32
	// Parts is the payload stream, one part for each transmission.
	Parts [][]byte

	// Wrong is the fault that XMTERR reports, if Bad. The rest of the group is received but
	// not read: its receives and credits still belong to the group.
	Bad   bool
	Wrong rpcrdma2.XmtError

	first rpcrdma2.OptType
	// sends describes the transmissions for finding items. bodies holds the bytes after
	// their headers.
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

// take processes the next transmission.
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

// Add processes an XMTCONT of the group that is arriving.
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
	if g.Bad && c.Number >= g.Count-1 { // the sender has reached the end of the group
		g.Came = g.Count
	}
}

// Interrupt records that another message, with header h and direction dir, came before the
// group was complete. operation means that it is an optional operation. It may be a message
// of the other direction, which has its own XIDs.
func (g *Gathering) Interrupt(h *rpcrdma2.Header, dir rpcrdma2.Direction, operation bool) {
	e := rpcrdma2.XmtError{Code: rpcrdma2.BadHeaderType, Expected: uint32(rpcrdma2.Optional), Actual: uint32(h.Proc)}
	number := uint32(0)
	switch {
	case !operation && h.Proc == rpcrdma2.Optional: // the right type, but malformed
		e = rpcrdma2.XmtError{Code: rpcrdma2.BadContinuation}
	case !operation:
	case h.Option != rpcrdma2.OptXmtCont:
		e = rpcrdma2.XmtError{Code: rpcrdma2.BadOptType, Expected: uint32(rpcrdma2.OptXmtCont), Actual: uint32(h.Option)}
	default:
		e = rpcrdma2.XmtError{Code: rpcrdma2.BadXID, Expected: g.XID, Actual: h.XID}
		if h.XID == g.XID { // of the other direction, where no group has begun
			e = rpcrdma2.XmtError{Code: rpcrdma2.BadContinuation}
		}
		var c rpcrdma2.XmtCont
		if c.Decode(h.Info) == nil {
			number = c.Number
		}
	}
	g.refuseAs(rpcrdma2.Transmission{XID: h.XID, Direction: dir, Number: number}, true, e)
	g.Came = g.Count
}

// InterruptShort records that a message too short for a header came before the group was
// complete. It has no XID to report.
func (g *Gathering) InterruptShort() {
	g.refuseAs(rpcrdma2.Transmission{XID: g.XID, Direction: g.Direction}, false, rpcrdma2.XmtError{Code: rpcrdma2.BadContinuation})
	g.Came = g.Count
}

// refuse records a fault of the transmission with header h.
func (g *Gathering) refuse(h *rpcrdma2.Header, number uint32, e rpcrdma2.XmtError) {
	g.refuseAs(rpcrdma2.Transmission{XID: h.XID, Direction: g.Direction, Number: number}, h.XID != g.XID || number > 0, e)
}

// refuseAs records a fault. after means that the faulty transmission is not the group's
// first. Only the first fault is reported.
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

// Whole reports whether the group is complete.
func (g *Gathering) Whole() bool { return g.Came >= g.Count }

// Append appends the payload stream to dst.
func (g *Gathering) Append(dst []byte) []byte {
	for _, p := range g.Parts {
		dst = append(dst, p...)
	}
	return dst
}

// End clears the group. The caller gives its receives back.
func (g *Gathering) End() {
	clear(g.Parts)
	clear(g.bodies)
	g.Open, g.Parts, g.Recvs = false, g.Parts[:0], g.Recvs[:0]
}

// Error describes a fault in a transmission group.
type Error struct {
	rpcrdma2.XmtError
	Told bool // the peer reported it, about our group; otherwise we reported it
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
