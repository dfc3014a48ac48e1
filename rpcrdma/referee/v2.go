package referee

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/xdrin"
)

// version2 is the state of a connection that speaks version 2.
type version2 struct {
	negotiation negotiation
	seq         uint64 // of the last message of version 2
	odd         bool   // an operation was seen that no specification describes
	directions  int    // number of directions for results, over all calls in flight
	requests    int    // REQUESTs that wait for RESPOND
	sides       [2]side2
	missed      bool // messages may have been missed
}

// side2 is the state of one side.
type side2 struct {
	traits history[traits]
	// own are its operations of direction REPLY that wait for an answer. As a responder's,
	// their XIDs are not those of the calls that it makes (version two §4.2.2).
	own *direction
	// known is the seq of the last peer message that the side must have
	// received before it sent its own last message. The side answered that
	// message, or needed a grant that came later.
	known uint64
	sent  uint64 // messages without continuations
	mark  uint64 // seq of the connection's last message when mark was last set
	spoke bool   // it has sent a message
	long  bool   // it has sent a message that may be too long for a receive of its peer
	// fixed are the characteristics that its INIT named in nochg, one bit each.
	fixed uint64
	// asked is the receive size, in bytes, that the side asked its peer for and
	// keeps to, or 0. askedFor is the XID of that REQUEST.
	asked, askedFor uint32
	least           uint32 // smallest receive size that the peer ever asked the side for
	group           *group2
	// broken is the XID of an abandoned group, and left the number of its
	// transmissions that are still to come. They are no further violation.
	broken uint32
	left   uint32
	recent recent
}

// call2 is the part of a call that only version 2 has.
type call2 struct {
	seq      uint64
	op       uint32 // of an OPTIONAL, or 0
	optional bool
	want     goxdr.Xcharset // of a REQUEST
	rsbuf    uint32         // of an XMTREQ
	// before is what the sender of an INIT had announced, with the side's fixed. It holds
	// again if an error answers the INIT.
	before *traits
	fixed  uint64
	// responses is the largest limit on transmissions of a response that the
	// responder may have announced when the call was made.
	responses uint32
	// directions are those of all ranges of an XMTREQ, in order.
	directions []direction2
	// passed counts the answered calls that were made after this one. It is
	// used only for an operation that no specification describes.
	passed int
}

func newVersion2() version2 {
	v := version2{}
	for i := range v.sides {
		v.sides[i].traits.say(0, untold)
		v.sides[i].own = newDirection(Side(i))
		v.sides[i].least = noSize
	}
	return v
}

func (v *version2) gap() {
	v.missed, v.negotiation.missed = true, true
	v.negotiation.offered, v.negotiation.refused = false, false
	for i := range v.sides {
		s := &v.sides[i]
		s.group, s.left, s.asked = nil, 0, 0
		s.own.gap()
		s.recent.lost = true
	}
}

// message2 judges a message whose rdma_vers is 2.
func (r *Referee) message2(e *Event, m *message) {
	h, err := decode2(e.Data, m)
	r.v2.seq++
	if err != nil {
		switch {
		case !errors.Is(err, xdrin.ErrShort):
		case len(e.Data) > maxHeader:
			r.giveUp("a header of the %v has more than %d bytes", m.from, maxHeader)
			return
		case !m.whole:
			r.Gap()
			return
		}
		r.report("v2.header", m.from, "XID %#x, header type %d: %v", m.xid, m.proc, err)
		r.interrupted(m.from, "what can't be decoded")
		r.v2.side(m.from).recent.add(sent2{xid: m.xid, any: true})
		r.malformed(m, faultHeader)
		return
	}
	h.seq = r.v2.seq
	r.dirs[m.from.Peer()].credits.now = h.seq
	r.keepsTo(m)
	r.fitting(m)
	if h.op != opXmtCont {
		r.interrupted(m.from, h.name())
		r.heard(m.from)
	}
	r.dispatch2(h)
	r.v2.knows(m.from, r.dirs[m.from].credits.received())
	r.v2.side(m.from).spoke = true
}

func (v *version2) side(s Side) *side2 { return &v.sides[s] }

// dispatch2 judges a message by its header type.
func (r *Referee) dispatch2(h *header2) {
	r.form(h.message)
	if !h.transmits() {
		r.v2.side(h.from).recent.add(sent2{xid: h.xid, dir: h.dir, bare: h.proc == procOptional})
	}
	switch {
	case h.proc == procError:
		r.errored2(h)
	case h.proc == procOptional:
		r.option(h)
	case h.dir == goxdr.CALL:
		r.called2(h)
	default:
		r.replied2(h)
	}
}

// patience2 is how many messages a side may send at its own end before it must
// act on what it received. It may have been working on these messages already.
// No specification gives a number.
const patience2 = 64

// heard records that a side sends a message that is no continuation.
func (r *Referee) heard(from Side) {
	s := r.v2.side(from)
	s.sent++
	if at := r.cfg.Vantage; s.sent%patience2 == 0 && (at == FromClient && from == Client || at == FromServer && from == Server) {
		r.v2.knows(from, s.mark)
		s.mark = r.v2.seq
	}
}

// knows records that a side has received everything up to seq.
func (v *version2) knows(from Side, seq uint64) {
	s := v.side(from)
	s.known = max(s.known, seq)
	v.side(from.Peer()).traits.forget(s.known)
}

// may reports whether ok holds for characteristics of a side's peer that the side
// may act on.
func (r *Referee) may(side Side, ok func(traits) bool) bool {
	return r.v2.missed || r.v2.side(side.Peer()).traits.any(r.v2.side(side).known, ok)
}

// text returns the inline RPC message. It returns nil if there is none, or if
// its direction differs from the header's.
func (r *Referee) text(h *header2) []byte {
	if h.proc != procMsg {
		return nil
	}
	switch kind, ok := msgType(h.payload); {
	case ok && kind != uint32(h.dir):
		r.report("v2.direction", h.from, "XID %#x: the header says %v, msg_type is %d", h.xid, h.dir, kind)
		return nil
	case !ok && h.whole && h.length-h.header >= 4: // form has reported a shorter one
		r.report("rpc.header", h.from, "XID %#x: an RPC message of %d bytes", h.xid, h.length-h.header)
	}
	return h.payload
}

// called2 judges MSG and NOMSG that carry a call.
func (r *Referee) called2(h *header2) {
	if h.proc == procNomsg && !h.positionZero() {
		r.report("header.nomsg", h.from, "XID %#x: NOMSG with a call and no position-zero chunk", h.xid)
	}
	r.backward(h, len(h.reads) > 0 || len(h.writes) > 0 || h.hasReply)
	text := r.text(h)
	r.called(h.message, text)
	if c := r.dirs[h.from].calls[h.xid]; c != nil {
		c.v2.seq = h.seq
	}
}

// replied2 judges MSG and NOMSG that carry a reply.
func (r *Referee) replied2(h *header2) {
	if len(h.reads) > 0 {
		r.report("v2.reply-reads", h.from, "XID %#x: a reply with %d read segments", h.xid, len(h.reads))
		h.reads = nil
	}
	c := r.dirs[h.from.Peer()].calls[h.xid]
	text := r.text(h)
	if c != nil {
		if asksBare(c.v2.op) && !c.doubtful {
			r.report("respond.kind", h.from, "XID %#x: %s answers %s", h.xid, h.name(), operations[c.v2.op].name)
		}
		r.v2.freed(r.dirs[h.from.Peer()], c)
		r.v2.knows(h.from, c.v2.seq)
		before := len(c.writes)
		c.plainAnswer(h.message)
		r.memory.count += len(c.writes) - before
		if h.proc == procNomsg {
			text = c.result.start()
		}
	}
	r.replied(h.message, text)
}

// plainAnswer allows a MSG or NOMSG that answers an XMTREQ to return the
// segments of its directions in the write list. No specification requires it
// to.
func (c *call) plainAnswer(m *message) {
	if c.v2.op != opXmtReq || len(m.writes) == 0 {
		return
	}
	for _, d := range c.v2.directions {
		if len(d.windows) > 0 {
			c.writes = append(c.writes, d.windows)
		}
	}
	if len(c.writes) != len(m.writes) {
		c.writes, m.writes = nil, nil
	}
}

// sizes2 returns the smallest and the largest receive, in bytes, that a message
// of version 2 may use, as far as its sender can know. It returns 0 and 0 if
// that is not known (version two §2.3, wire reference §5.1).
func (r *Referee) sizes2(from Side) (least, most uint32) {
	s, peer := r.v2.side(from), r.v2.side(from.Peer())
	if r.v2.missed {
		return 0, 0
	}
	base := uint32(noSize)
	if r.told[from].known {
		base = max(defaultSize, uint32(r.threshold1(from)))
	}
	least = noSize
	if peer.traits.any(s.known, func(t traits) bool {
		size := t.receives(base)
		least, most = min(least, size), max(most, size)
		return false
	}) || most == noSize {
		return 0, 0
	}
	return least, most
}

// threshold2 returns the largest message of version 2 that a side may send, in
// bytes. It returns 0 if that is not known. A receive is never smaller than the
// smallest threshold, whatever its owner announces.
func (r *Referee) threshold2(from Side) int {
	_, most := r.sizes2(from)
	if most == 0 {
		return 0
	}
	return max(int(most), defaultInline)
}

// fitting records whether a message may be too long for a receive of its peer.
func (r *Referee) fitting(m *message) {
	least, _ := r.sizes2(m.from)
	if s := r.v2.side(m.from); least == 0 || m.length > int(least) {
		s.long = true
	}
}

// refusedSize judges a Terminate that says that a message is too long for its
// receive (RFC 5040 §4.8). It is a violation if no message was longer than the
// receiver takes.
func (r *Referee) refusedSize(e *Event) {
	const layer, kind, code = 1, 2, 5 // DDP, untagged buffer, message too long
	if e.Kind != Terminate || e.Layer != layer || e.Type != kind || e.Code != code {
		return
	}
	s := r.v2.side(e.From.Peer())
	if least, _ := r.sizes2(e.From.Peer()); s.sent > 0 && !s.long && least > 0 {
		r.report("size.supported", e.From, "a Terminate says that a message is too long, and none had more than %d bytes", least)
	}
}

// mayInvalidate2 reports whether owner's peer may invalidate owner's STags. If
// the owner announced nothing in version 2, the CM private data decides.
func (r *Referee) mayInvalidate2(owner Side) bool {
	return r.may(owner.Peer(), func(t traits) bool {
		if t.invalidate == nil {
			return r.mayInvalidate1()
		}
		return *t.invalidate
	})
}

// backward judges a call of the server against the Backward Request Support
// that the client announced.
func (r *Referee) backward(h *header2, chunks bool) {
	if h.from != Server {
		return
	}
	allows := func(least goxdr.Xchbrs) bool {
		return r.may(Server, func(t traits) bool { return t.backward == nil || *t.backward >= least })
	}
	switch {
	case !allows(goxdr.XCHBRS_INLINE):
		r.report("backward.none", h.from, "XID %#x calls a client that told NONE", h.xid)
	case chunks && !allows(goxdr.XCHBRS_GENERAL):
		r.report("backward.inline", h.from, "XID %#x calls with chunks a client that told INLINE", h.xid)
	}
}
