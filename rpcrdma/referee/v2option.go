package referee

import "github.com/rdmad/rdmad/rpcrdma/internal/goxdr"

// patience is how many later calls may be answered before an operation that no
// specification describes must have its error. No specification gives a number.
const patience = 64

// Bounds of the state that is kept of REQUESTs.
const (
	maxRequests = 16 // waiting for RESPOND; empty REQUESTs don't count
	maxWant     = 1024
)

// option judges an OPTIONAL.
func (r *Referee) option(h *header2) {
	if h.bad != nil {
		r.badOption(h)
		return
	}
	if h.dir == goxdr.REPLY && !h.transmits() { // its credits are a grant (version two §4.2.2)
		r.dirs[h.from.Peer()].credits.answerWithout(0, uint64(h.credit))
	}
	switch x := h.body.(type) {
	case *goxdr.Optinit_xch:
		r.bare(h)
		r.init(h, x)
	case *goxdr.Optreq_xch:
		r.bare(h)
		r.request(h, x)
	case *goxdr.Optresp_xch:
		r.bare(h)
		r.respond(h, x)
	case *goxdr.Optupd_xch:
		r.bare(h)
		r.tell(h, x.Optupxch_now, false)
	case *goxdr.Optxmt_req:
		r.xmtReq(h, x)
	case *goxdr.Optxmt_resp:
		r.xmtResp(h, x)
	case *goxdr.Optxmt_cont:
		r.xmtCont(h, x)
	case *goxdr.Optxmt_err:
		r.bare(h)
		r.xmtErr(h, x)
	default:
		if h.dir == goxdr.CALL {
			r.v2.odd = true
			r.noReply(h.message, h.name())
			r.ask(h, nil)
		}
	}
}

// badOption judges an operation whose body can't be decoded. A request in
// transmissions still counts as a call, so that its error answers something.
func (r *Referee) badOption(h *header2) {
	r.report("v2.header", h.from, "XID %#x: %s: %v", h.xid, h.name(), h.bad)
	if h.transmits() {
		r.interrupted(h.from, h.name())
		r.v2.side(h.from).recent.add(sent2{xid: h.xid, dir: h.dir, any: true})
		r.malformed(h.message, faultHeader)
	}
	switch d, c := r.asked(h); {
	case h.op == opRequest:
		r.ask(h, nil)
	case c != nil && !h.transmits(): // its receiver may take it for the answer
		r.doubt2(d, c, h.message)
	}
}

// bare judges what follows the header of an operation without a payload.
func (r *Referee) bare(h *header2) {
	r.noReply(h.message, h.name())
	if n := h.length - h.header; n > 0 {
		r.report("v2.trailing", h.from, "XID %#x: %d bytes follow %s", h.xid, n, h.name())
	}
}

// ask opens an operation that waits for an answer. It takes no credit, because
// no specification says that it does.
func (r *Referee) ask(h *header2, want goxdr.Xcharset) {
	d := r.dirs[h.from]
	if h.dir == goxdr.REPLY {
		d = r.v2.side(h.from).own
	}
	c := &call{xid: h.xid, vers: h.vers, frame: r.frame, v2: call2{seq: h.seq, op: h.op, optional: true, want: want}}
	r.replace(d, c)
	if len(d.calls) >= maxCalls {
		r.giveUp("the %v has more than %d calls in flight", h.from, maxCalls)
		return
	}
	if want != nil {
		if r.v2.requests++; r.v2.requests > maxRequests || len(want) > maxWant {
			r.giveUp("%d REQUESTs wait, the last for %d characteristics", r.v2.requests, len(want))
			return
		}
	}
	d.calls[h.xid] = c
}

// answer2 closes a call that was answered without an RPC reply.
func (r *Referee) answer2(d *direction, c *call, m *message) {
	r.v2.knows(m.from, c.v2.seq)
	d.credits.answerWithout(c.units, grant2(d, m))
	r.close(d, c)
}

// doubt2 records that a call may be answered in any way, or not at all.
func (r *Referee) doubt2(d *direction, c *call, m *message) {
	d.credits.answerWithout(c.units, grant2(d, m))
	c.units, c.doubtful = 0, true
	r.v2.freed(d, c)
}

// freed records that the sender of a REQUEST may have an answer, and need no longer keep to the
// size that it asked for.
func (v *version2) freed(d *direction, c *call) {
	if s := v.side(d.caller); c.v2.op == opRequest && s.askedFor == c.xid {
		s.asked = 0
	}
}

// grant2 returns the credits that m grants to the caller. It returns 0 if the
// caller sent m.
func grant2(d *direction, m *message) uint64 {
	if m.from == d.caller {
		return 0
	}
	return uint64(m.credit)
}

// dropped frees the version 2 state of a call.
func (v *version2) dropped(c *call) {
	v.directions -= len(c.v2.directions)
	if c.v2.want != nil {
		v.requests--
	}
}

// unanswered judges operations that no specification describes, when a later
// call was answered.
func (r *Referee) unanswered(d *direction, answered *call) {
	if !r.v2.odd || r.v2.missed {
		return
	}
	for _, c := range d.calls {
		if !c.v2.optional || c.v2.op <= opXmtErr && c.v2.op >= opInit || c.v2.seq >= answered.v2.seq {
			continue
		}
		if c.v2.passed++; c.v2.passed == patience {
			r.report("v2.option-unanswered", d.caller.Peer(), "operation %d of XID %#x from frame %d, and %d calls after it have answers",
				c.v2.op, c.xid, c.frame, patience)
		}
	}
}

// errored2 judges an ERROR.
func (r *Referee) errored2(h *header2) {
	r.noReply(h.message, "an error")
	peer := r.v2.side(h.from.Peer())
	if g := peer.group; g != nil && g.lead.xid == h.xid {
		g.over = true
	}
	c := r.dirs[h.from.Peer()].calls[h.xid]
	if c == nil {
		if own := peer.own.calls[h.xid]; own != nil {
			r.close(peer.own, own)
			if peer.askedFor == h.xid {
				peer.asked = 0
			}
			return
		}
		r.strayError(h, peer)
		return
	}
	if c.vers != h.vers { // it answers another message with the same XID
		r.doubt2(r.dirs[h.from.Peer()], c, h.message)
		return
	}
	if c.v2.op == opRequest && peer.askedFor == h.xid {
		peer.asked = 0
	}
	if before := c.v2.before; before != nil {
		peer.traits.say(h.seq, *before)
		peer.fixed = c.v2.fixed
	}
	if h.errCode == uint32(goxdr.RDMA2_ERR_INVAL_OPTION) && !c.v2.optional && !c.doubtful && c.fault == faultNone {
		r.report("v2.error-code", h.from, "INVAL_OPTION answers XID %#x, which is no OPTIONAL", h.xid)
	}
	r.v2.knows(h.from, c.v2.seq)
	r.errored(h.message)
}

// strayError judges an ERROR that answers nothing in flight. It may answer an
// operation of a requester that waits for no answer.
func (r *Referee) strayError(h *header2, peer *side2) {
	call := peer.recent.has(func(s sent2) bool { return s.xid == h.xid && (s.bare && s.dir == goxdr.CALL || s.any) })
	switch {
	case call:
	case peer.recent.has(func(s sent2) bool { return s.xid == h.xid && s.bare }):
		r.report("v2.error-direction", h.from, "an error answers XID %#x, which came from a responder", h.xid)
	default:
		r.errored(h.message)
	}
}
