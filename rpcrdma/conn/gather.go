package conn

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// gathering is a transmission group as it arrives. One message of a direction
// arrives at a time, so that a role has one. What arrived stays in its receives
// until the group has ended: count bounds them.
type gathering struct {
	open    bool
	xid     uint32
	dir     rpcrdma2.Direction
	first   rpcrdma2.OptType
	count   uint32 // transmissions of the group
	came    uint32 // of them
	credits uint32 // of the last
	size    int    // bytes of the payload stream

	recvs []uint32
	parts [][]byte
	// sends are what came, as far as items are found in it, bodies the bytes
	// after the headers.
	sends  []placement.Received
	bodies [][]byte

	// wrong is what is told of the group, if bad. The rest of it is taken and
	// left unread: its receives and credits are the group's.
	bad   bool
	wrong rpcrdma2.XmtError
}

// start begins with the first transmission.
func (g *gathering) start(h *Header, first rpcrdma2.OptType, count, length, recv uint32, payload []byte) {
	*g = gathering{
		open: true, xid: h.XID, dir: h.Direction, first: first, count: count,
		recvs: g.recvs[:0], parts: g.parts[:0], sends: g.sends[:0], bodies: g.bodies[:0],
	}
	g.take(h, length, recv, payload)
}

// take takes a transmission that is the next one.
func (g *gathering) take(h *Header, length, recv uint32, payload []byte) {
	number := g.came
	g.came, g.credits = g.came+1, h.Credits
	g.recvs = append(g.recvs, recv)
	switch most := min(len(payload), MaxMessage-g.size); {
	case g.bad:
	case length > uint32(most):
		g.refuse(h, number, rpcrdma2.XmtError{Code: rpcrdma2.BadPayload, Actual: length, Max: uint32(most)})
	default:
		g.size += int(length)
		g.parts = append(g.parts, payload[:length:length])
		header := rpcrdma2.OptionalSize(len(h.Info))
		g.sends = append(g.sends, placement.Received{Header: header, Payload: int(length), Length: header + len(payload)})
		g.bodies = append(g.bodies, payload)
	}
}

// continues says whether a message is an XMTCONT in a direction.
func continues(h *Header, err error, dir rpcrdma2.Direction) bool {
	return operates(h, err) && h.Option == rpcrdma2.OptXmtCont && h.Direction == dir
}

// add takes an XMTCONT while a group is arriving.
func (g *gathering) add(h *Header, recv uint32, payload []byte) {
	var c rpcrdma2.XmtCont
	if err := c.Decode(h.Info); err != nil {
		g.refuse(h, g.came, rpcrdma2.XmtError{Code: rpcrdma2.BadPayload, Actual: uint32(len(h.Info)), Min: uint32(c.Size()), Max: uint32(c.Size())})
	}
	switch {
	case g.bad:
	case h.XID != g.xid:
		g.refuse(h, c.Number, rpcrdma2.XmtError{Code: rpcrdma2.BadXID, Expected: g.xid, Actual: h.XID})
	case c.Number != g.came:
		g.refuse(h, c.Number, rpcrdma2.XmtError{Code: rpcrdma2.BadSequence, Expected: g.came, Actual: c.Number})
	case c.Initial != g.first:
		g.refuse(h, c.Number, rpcrdma2.XmtError{Code: rpcrdma2.BadOptType, Expected: uint32(g.first), Actual: uint32(c.Initial)})
	}
	g.take(h, c.PayloadLength, recv, payload)
	if g.bad && c.Number >= g.count-1 { // its sender is at the end
		g.came = g.count
	}
}

// interrupt notes that another message came before the group's end. It may be
// one of the other direction, whose XIDs are others.
func (g *gathering) interrupt(a *Arrival) {
	h, err, dir := &a.header, a.err, g.dir
	if a.known {
		dir = a.direction
	}
	e := rpcrdma2.XmtError{Code: rpcrdma2.BadHeaderType, Expected: uint32(rpcrdma2.Optional), Actual: uint32(h.Proc)}
	number := uint32(0)
	switch {
	case !operates(h, err):
	case h.Option != rpcrdma2.OptXmtCont:
		e = rpcrdma2.XmtError{Code: rpcrdma2.BadOptType, Expected: uint32(rpcrdma2.OptXmtCont), Actual: uint32(h.Option)}
	default:
		e = rpcrdma2.XmtError{Code: rpcrdma2.BadXID, Expected: g.xid, Actual: h.XID}
		var c rpcrdma2.XmtCont
		if c.Decode(h.Info) == nil {
			number = c.Number
		}
	}
	g.refuseAs(rpcrdma2.Transmission{XID: h.XID, Direction: dir, Number: number}, true, e)
	g.came = g.count
}

// refuse notes what is wrong about the transmission that h is the header of.
func (g *gathering) refuse(h *Header, number uint32, e rpcrdma2.XmtError) {
	g.refuseAs(rpcrdma2.Transmission{XID: h.XID, Direction: g.dir, Number: number}, h.XID != g.xid || number > 0, e)
}

// refuseAs notes what is wrong about a transmission, which is the group's first
// or comes after it. What is found first is told.
func (g *gathering) refuseAs(bad rpcrdma2.Transmission, after bool, e rpcrdma2.XmtError) {
	if g.bad {
		return
	}
	g.bad, g.wrong = true, e
	g.wrong.Bad = bad
	if after {
		g.wrong.HasLead, g.wrong.Lead = true, rpcrdma2.Transmission{XID: g.xid, Direction: g.dir}
	}
}

// whole says that nothing of the group is to come any more.
func (g *gathering) whole() bool { return g.came >= g.count }

// append appends the payload stream.
func (g *gathering) append(dst []byte) []byte {
	for _, p := range g.parts {
		dst = append(dst, p...)
	}
	return dst
}

// end forgets the group; its receives are the caller's to give back.
func (g *gathering) end() {
	clear(g.parts)
	clear(g.bodies)
	g.open, g.parts, g.recvs = false, g.parts[:0], g.recvs[:0]
}

// GroupError says what is wrong with a transmission group.
type GroupError struct {
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

func (e *GroupError) Error() string {
	whose := "peer's"
	if e.Told {
		whose = "our"
	}
	return fmt.Sprintf("conn: %s transmission group was refused: %s", whose, groupFaults[e.Code])
}
