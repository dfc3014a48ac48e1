package referee

import (
	"math"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

// Bounds of the state that is kept of groups.
const (
	maxTransmissions = 1024
	maxDirections    = 1 << 16 // over all calls in flight
)

// group2 is an unfinished transmission group (rtrext §4.2).
type group2 struct {
	lead  *header2 // without its payload
	count uint32
	sent  []transmission
	items []item2
	// stream is the known start of the payload stream, length its length so
	// far.
	stream []byte
	length uint64
	whole  bool   // stream holds all of it
	known  uint64 // what the sender had received when the group began
	call   *call  // the call that the group makes or answers, or nil
	over   bool   // the receiver has said that the group is over
}

// transmission is one transmission of a group: used is where its header and its
// part of the payload stream end, length is its length.
type transmission struct{ used, length uint64 }

// transmits reports whether h is a transmission of a group.
func (h *header2) transmits() bool { return h.op == opXmtReq || h.op == opXmtResp || h.op == opXmtCont }

// interrupted ends a side's group because the side sends something that does
// not continue it.
func (r *Referee) interrupted(from Side, by string) {
	s := r.v2.side(from)
	g := s.group
	if g == nil {
		return
	}
	if !g.over {
		r.report("group.interrupted", from, "%s comes after %d of the %d transmissions of XID %#x", by, len(g.sent), g.count, g.lead.xid)
	}
	r.abandon(s)
}

// abandon ends a side's group. Its remaining transmissions are no violation.
// Its call may be answered in any way or not at all.
func (r *Referee) abandon(s *side2) {
	g := s.group
	s.group, s.broken, s.left = nil, g.lead.xid, g.count-uint32(len(g.sent))
	if g.call != nil {
		r.doubt2(r.caller(g), g.call, g.lead.message)
	}
}

// caller returns the direction of the call that a group makes or answers.
func (r *Referee) caller(g *group2) *direction {
	if g.lead.op == opXmtReq {
		return r.dirs[g.lead.from]
	}
	return r.dirs[g.lead.from.Peer()]
}

// begin begins a group of count transmissions. It reports a count of 0 and then
// returns nil.
func (r *Referee) begin(h *header2, count uint32, ddp []goxdr.Xmddp_mitem, c *call) *group2 {
	if count == 0 {
		r.v2.side(h.from).recent.add(sent2{xid: h.xid, dir: h.dir})
		r.report("group.count", h.from, "XID %#x: %s of 0 transmissions", h.xid, h.name())
		return nil
	}
	s := r.v2.side(h.from)
	lead := *h
	lead.message, lead.body = h.kept(), nil
	g := &group2{lead: &lead, count: count, items: items2(ddp), whole: true, known: s.known, call: c}
	s.group, s.left = g, 0
	return g
}

// add adds a transmission to its sender's group. The last one completes the
// group.
func (r *Referee) add(h *header2, number, pslen uint32) {
	s := r.v2.side(h.from)
	s.recent.add(sent2{xid: h.xid, dir: h.dir, seq: number})
	g := s.group
	behind := uint64(h.length - h.header)
	placed := g.placed()
	if uint64(pslen) > behind || uint64(pslen) < behind && !placed {
		r.report("group.payload", h.from, "XID %#x, transmission %d: %d bytes of payload, %d bytes follow the header", h.xid, number, pslen, behind)
		r.abandon(s)
		return
	}
	if len(g.sent) >= maxTransmissions {
		r.abandon(s)
		return
	}
	g.sent = append(g.sent, transmission{uint64(h.header) + uint64(pslen), uint64(h.length)})
	g.keep(h.payload, pslen)
	if h.invalidates && g.lead.op == opXmtResp && g.call != nil {
		r.invalidated(r.dirs[h.from.Peer()], g.call, h.message)
	}
	if uint32(len(g.sent)) < g.count {
		return
	}
	s.group = nil
	if !g.over {
		r.complete(g, h)
	}
}

// keep adds one transmission's part of the payload stream.
func (g *group2) keep(payload []byte, pslen uint32) {
	g.length += uint64(pslen)
	part := payload[:min(len(payload), int(pslen))]
	if len(part) < int(pslen) || len(g.stream)+len(part) > maxPrefix {
		g.whole = false
		part = part[:min(len(part), maxPrefix-len(g.stream))]
	}
	g.stream = append(g.stream, part...)
}

// placed reports whether the group's transmissions hold placed data.
func (g *group2) placed() bool {
	return slices.ContainsFunc(g.items, func(i item2) bool { return i.where == goxdr.XMDTYPE_TBSN })
}

// xmtCont judges XMTCONT.
func (r *Referee) xmtCont(h *header2, x *goxdr.Optxmt_cont) {
	s := r.v2.side(h.from)
	g := s.group
	if g == nil {
		r.stray(h, s)
		s.recent.add(sent2{xid: h.xid, dir: h.dir, seq: x.Optxc_xnum})
		return
	}
	switch {
	case g.over:
	case h.xid != g.lead.xid:
		r.report("group.xid", h.from, "XID %#x continues the group of XID %#x", h.xid, g.lead.xid)
	case h.dir != g.lead.dir:
		r.report("group.direction", h.from, "XID %#x: %v continues %v", h.xid, h.dir, g.lead.dir)
	case x.Optxc_itype != g.lead.op:
		r.report("group.itype", h.from, "XID %#x: itype %d continues %s", h.xid, x.Optxc_itype, g.lead.name())
	case x.Optxc_xnum != uint32(len(g.sent)):
		r.report("group.number", h.from, "XID %#x: transmission %d comes where %d belongs", h.xid, x.Optxc_xnum, len(g.sent))
	default:
		if g.lead.op == opXmtReq {
			r.noReply(h.message, "a call")
		}
		r.add(h, x.Optxc_xnum, x.Optxc_pslen)
		return
	}
	s.recent.add(sent2{xid: h.xid, dir: h.dir, seq: x.Optxc_xnum})
	r.abandon(s)
	s.left-- // h itself
}

// stray judges an XMTCONT outside of a group. An XMTERR about it may look like one
// about a call with its XID.
func (r *Referee) stray(h *header2, s *side2) {
	if c := r.dirs[h.from].calls[h.xid]; c != nil && h.dir == goxdr.CALL {
		c.doubtful = true
	}
	switch {
	case r.v2.missed:
	case s.left > 0 && s.broken == h.xid:
		s.left--
	default:
		r.report("group.stray", h.from, "XID %#x: XMTCONT continues no group", h.xid)
	}
}

// complete judges a group whose last transmission is h.
func (r *Referee) complete(g *group2, h *header2) {
	h.payload, h.whole = g.stream, g.whole
	h.proc, h.header, h.length = procMsg, 0, int(min(g.length, math.MaxInt32))
	text := g.stream
	switch kind, ok := msgType(text); {
	case ok && kind != uint32(g.lead.dir):
		r.report("v2.direction", h.from, "XID %#x: the header says %v, msg_type is %d", h.xid, g.lead.dir, kind)
		text = nil
	case !ok && h.whole:
		r.report("rpc.header", h.from, "XID %#x: an RPC message of %d bytes", h.xid, h.length)
	}
	fits := r.ordered(g)
	r.targeted(g)
	if g.lead.op == opXmtReq {
		r.requested(g, h, text, fits)
	} else {
		r.responded(g, h, text)
	}
}

// xmtReq judges XMTREQ.
func (r *Referee) xmtReq(h *header2, x *goxdr.Optxmt_req) {
	if h.dir != goxdr.CALL {
		r.report("group.direction", h.from, "XID %#x: XMTREQ says %v", h.xid, h.dir)
	}
	if h.credit == 0 {
		r.report("credit.request", h.from, "XID %#x asks for no credit", h.xid)
	}
	r.noReply(h.message, "a call")
	c := &call{xid: h.xid, vers: h.vers, frame: r.frame, units: uint64(x.Optxrq_count), asked: h.credit, length: h.length}
	c.v2 = call2{seq: h.seq, op: h.op, optional: true, rsbuf: x.Optxrq_rsbuf}
	r.offers(h, x, c)
	r.backward(h, len(h.windows) > 0 || h.hasReply)
	r.supported(h, x.Optxrq_count, goxdr.RTRS_XREQ)
	r.requestLimit(h, x.Optxrq_count)
	if r.may(h.from, func(t traits) bool {
		c.v2.responses = max(c.v2.responses, t.answers())
		return false
	}) {
		c.v2.responses = math.MaxUint32
	}
	d := r.dirs[h.from]
	r.sum.askedFor(d, h.credit)
	if r.v2.directions += len(c.v2.directions); r.v2.directions > maxDirections {
		r.giveUp("calls in flight have more than %d directions for results", maxDirections)
		return
	}
	if !r.open(d, c) {
		return
	}
	r.sum.offered(h.message)
	if r.begin(h, x.Optxrq_count, x.Optxrq_ddp, c) == nil {
		c.doubtful = true
		return
	}
	r.add(h, 0, x.Optxrq_pslen)
}

// offers adds the windows that an XMTREQ offers.
func (r *Referee) offers(h *header2, x *goxdr.Optxmt_req, c *call) {
	var targets []segment
	for _, i := range items2(x.Optxrq_ddp) {
		for _, s := range i.segments {
			r.wraps(h.message, s)
		}
		h.windows = append(h.windows, windowsOf(h.message, i.segments, mayRead, nil, r.frame)...)
	}
	r.ranges(h, x.Optxrq_rsd)
	for _, d := range directions2(x.Optxrq_rsd) {
		targets = append(targets, d.segments...)
		d.windows = windowsOf(h.message, d.segments, mayWrite, nil, r.frame)
		h.windows = append(h.windows, d.windows...)
		d.segments = nil
		c.v2.directions = append(c.v2.directions, d)
	}
	if x.Optxrq_repch != nil {
		h.hasReply, h.reply = true, decodedSegments(x.Optxrq_repch.Rdma_target)
		targets = append(targets, h.reply...)
		c.hasReply, c.result = true, &assembly{}
		c.reply = windowsOf(h.message, h.reply, mayWrite, c.result, r.frame)
		h.windows = append(h.windows, c.reply...)
	}
	for _, s := range targets {
		r.wraps(h.message, s)
	}
	r.disjoint(h.message, targets)
	c.windows = h.windows
}

// supported judges an operation against the RTR Support that its receiver
// announced.
func (r *Referee) supported(h *header2, count, bit uint32) {
	if count > 1 {
		bit |= goxdr.RTRS_XCONT
	}
	if r.may(h.from, func(t traits) bool { return t.rtr == nil || *t.rtr&bit == bit }) {
		return
	}
	r.report("rtr.unsupported", h.from, "XID %#x: %s of %d transmissions to a peer that told RTR Support %#x",
		h.xid, h.name(), count, *r.v2.side(h.from.Peer()).traits.last().rtr)
}

func (r *Referee) requestLimit(h *header2, count uint32) {
	if r.may(h.from, func(t traits) bool { return count <= max(t.requests, 1) }) {
		return
	}
	r.report("group.request-limit", h.from, "XID %#x: a request of %d transmissions to a peer that takes %d",
		h.xid, count, r.v2.side(h.from.Peer()).traits.last().requests)
}

// requested judges the RPC message of a request.
func (r *Referee) requested(g *group2, h *header2, text []byte, fits bool) {
	for _, i := range g.items {
		if i.where == goxdr.XMDTYPE_TOOSHORT || i.where == goxdr.XMDTYPE_NOITEM {
			r.report("placement.request", h.from, "XID %#x: the item at %d is %v", h.xid, i.disp, i.where)
		}
	}
	if !fits { // the error in the items was reported
		text = nil
	}
	for _, i := range g.items {
		if i.excised() {
			h.reads = append(h.reads, readSegment{i.disp, segment{length: i.length}})
		}
	}
	r.callText(r.dirs[h.from], g.call, h.message, text)
}

// xmtResp judges XMTRESP.
func (r *Referee) xmtResp(h *header2, x *goxdr.Optxmt_resp) {
	if h.dir != goxdr.REPLY {
		r.report("group.direction", h.from, "XID %#x: XMTRESP says %v", h.xid, h.dir)
		s := r.v2.side(h.from)
		s.recent.add(sent2{xid: h.xid, dir: h.dir, any: true})
		s.broken, s.left = h.xid, max(x.Optxrs_count, 1)-1
		r.malformed(h.message, faultHeader)
		return
	}
	d := r.dirs[h.from.Peer()]
	c := d.calls[h.xid]
	if c == nil {
		r.unknownAnswer(d, h.message, "XMTRESP")
	} else {
		if asksBare(c.v2.op) && !c.doubtful {
			r.report("respond.kind", h.from, "XID %#x: XMTRESP answers %s", h.xid, operations[c.v2.op].name)
		}
		r.v2.freed(d, c)
		r.v2.knows(h.from, c.v2.seq)
	}
	if c == nil || c.v2.op != opXmtReq { // a request in transmissions implies that its sender takes such a response
		r.supported(h, x.Optxrs_count, goxdr.RTRS_XRESP)
	}
	promised, within := r.promised(h, c, x.Optxrs_count), r.responseLimit(h, c, x.Optxrs_count)
	refusable := !promised || !within
	if g := r.begin(h, x.Optxrs_count, x.Optxrs_ddp, c); g != nil {
		r.add(h, 0, x.Optxrs_pslen)
		if s := r.v2.side(h.from); s.group == g && refusable { // the receiver may refuse it at once
			r.abandon(s)
		}
	} else if c != nil { // the receiver may take it for an answer
		r.doubt2(d, c, h.message)
	}
}

// promised judges the number of transmissions of a response against the
// receives that the request promised. It reports whether there are enough.
func (r *Referee) promised(h *header2, c *call, count uint32) bool {
	if c == nil || uint64(count) <= 1+uint64(c.v2.rsbuf) {
		return true
	}
	if !c.doubtful {
		r.report("group.promised", h.from, "XID %#x: a response of %d transmissions to a request with rsbuf %d", h.xid, count, c.v2.rsbuf)
	}
	return false
}

// responseLimit judges the number of transmissions of a response against the
// limit that its sender announced, last or before the request was made. It
// reports whether the number is allowed.
func (r *Referee) responseLimit(h *header2, c *call, count uint32) bool {
	now := r.v2.side(h.from).traits.last()
	if r.v2.missed || count <= now.answers() || c != nil && count <= c.v2.responses {
		return true
	}
	r.report("group.response-limit", h.from, "XID %#x: a response of %d transmissions from a side that told a limit of %d", h.xid, count, now.answers())
	return false
}

// responded judges a complete response.
func (r *Referee) responded(g *group2, h *header2, text []byte) {
	d := r.dirs[h.from.Peer()]
	c := g.call
	if c == nil || d.calls[h.xid] != c {
		return
	}
	if !c.doubtful {
		r.directed(g, h, c)
		r.replyChunk(h, c)
	}
	r.answered(d, c, h.message)
	if slices.ContainsFunc(g.items, func(i item2) bool { return i.excised() }) { // text does not match the upper layer's types
		text = nil
	}
	r.replyText(d, c, h.message, text)
	r.close(d, c)
	r.sum.replied(d, c, h.message)
}

// replyChunk judges an XMTRESP to a request with a reply chunk. XMTRESP has no
// field that returns a reply chunk.
func (r *Referee) replyChunk(h *header2, c *call) {
	for _, w := range c.reply {
		if len(w.written.list) > 0 {
			r.report("placement.reply-chunk", h.from, "XID %#x: XMTRESP answers, and RDMA Write has filled the reply chunk", h.xid)
			return
		}
	}
}
