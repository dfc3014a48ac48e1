package referee

import "slices"

const maxAnswered = 1024 // XIDs remembered after they were answered

// direction is the state of the calls that one side makes.
type direction struct {
	caller   Side
	calls    map[uint32]*call
	exposed  map[uint32][]*window // memory that a reply's read list offers until DONE, by XID
	credits  credits
	answered ring[uint32] // XIDs answered last
	repeated []uint32     // XIDs reused while in flight; each may have two answers
	missed   bool         // calls may have been missed
}

func newDirection(s Side) *direction {
	return &direction{caller: s, calls: map[uint32]*call{}, exposed: map[uint32][]*window{}, credits: newCredits()}
}

// gap records that answers may have been missed: every call in flight becomes
// doubtful.
func (d *direction) gap() {
	d.missed = true
	d.credits.gap()
	for _, c := range d.calls {
		c.units, c.doubtful = 0, true
	}
}

// fault says what is wrong with a call, if that decides its answer.
type fault uint8

const (
	faultNone    fault = iota
	faultVersion       // the header has an unsupported version
	faultHeader        // the header can't be decoded
)

// call is one call in flight.
type call struct {
	xid, vers uint32
	frame     uint64
	fault     fault
	doubtful  bool     // it may have been answered, or may be no call
	units     uint64   // credits it took
	asked     uint32   // credits it asked for, 0 if unknown
	length    int      // bytes of its Send
	long      *message // the message of a long call, whose RPC message is in body
	windows   []*window
	reads     []readSegment
	writes    [][]*window
	reply     []*window
	hasReply  bool
	body      *assembly // the RPC message, if RDMA Read transfers it
	result    *assembly // the reply, if RDMA Write transfers it
	rpc       rpcCall
	args      bool // rpc was decoded
	v2        call2
}

// replace forgets a call whose XID c has, too. The next answer may be that of
// either.
func (r *Referee) replace(d *direction, c *call) {
	old := d.calls[c.xid]
	if old == nil {
		return
	}
	if !old.doubtful {
		r.report("xid.reused", d.caller, "XID %#x is that of a call from frame %d in flight", c.xid, old.frame)
	}
	d.repeat(c.xid)
	for _, w := range old.windows {
		w.replaced = true
	}
	r.drop(d, old)
	c.doubtful = true
}

// open adds a call and reports whether it was added. A call with an XID that is
// in use replaces the older call.
func (r *Referee) open(d *direction, c *call) bool {
	r.replace(d, c)
	if len(d.calls) >= maxCalls {
		r.giveUp("the %v has more than %d calls in flight", d.caller, maxCalls)
		return false
	}
	if !r.memory.offer(c.windows) || !r.memory.weigh(len(c.writes)) {
		r.giveUp("more than %d segments are offered", maxWindows)
		return false
	}
	d.calls[c.xid] = c
	d.credits.asks(uint64(c.asked))
	if !d.credits.call(c.units) {
		r.report("credit.exceeded", d.caller, "XID %#x makes %d calls in flight where the grant is %d", c.xid, d.credits.inFlight(), d.credits.granted())
	}
	r.sum.called(d)
	return true
}

// close removes an answered call and remembers its XID. If the call reuses the
// XID of another, the first answer may be that of the other, and leaves it.
func (r *Referee) close(d *direction, c *call) {
	if d.again(c.xid) {
		return
	}
	r.drop(d, c)
	r.unanswered(d, c)
	d.answered.add(c.xid, maxAnswered)
}

// drop forgets a call and its memory.
func (r *Referee) drop(d *direction, c *call) {
	r.memory.withdraw(c.windows, r.frame)
	r.memory.count -= len(c.writes)
	r.v2.dropped(c)
	delete(d.calls, c.xid)
}

// windowsOf returns one window for each segment of a chunk.
func windowsOf(m *message, list []segment, right right, body *assembly, frame uint64) []*window {
	out, at := make([]*window, len(list)), uint64(0)
	for i, s := range list {
		out[i] = &window{segment: s, owner: m.from, right: right, xid: m.xid, frame: frame, body: body, at: at}
		at += uint64(s.length)
	}
	return out
}

// readWindows adds the windows of the message's read list.
func (m *message) readWindows(frame uint64) {
	for i := 0; i < len(m.reads); {
		position, chunk := m.reads[i].position, []segment(nil)
		for ; i < len(m.reads) && m.reads[i].position == position; i++ {
			chunk = append(chunk, m.reads[i].segment)
		}
		var body *assembly
		if position == 0 && m.body == nil {
			m.body = &assembly{}
			body = m.body
		}
		m.windows = append(m.windows, windowsOf(m, chunk, mayRead, body, frame)...)
	}
}

// malformed opens a call for a message that can't be decoded further. If the
// message may answer a call with its XID, both are doubtful. The message takes
// no credit, because its direction is unknown.
func (r *Referee) malformed(m *message, f fault) {
	if m.agrees { // its receiver may not have understood it
		r.v2.negotiation.agreed = 0
	}
	doubtful := m.proc == procDone || m.proc == procError
	if c := r.dirs[m.from.Peer()].calls[m.xid]; c != nil {
		r.doubt(r.dirs[m.from.Peer()], c, m)
		doubtful = true
	}
	r.open(r.dirs[m.from], &call{xid: m.xid, vers: m.vers, frame: r.frame, fault: f, doubtful: doubtful})
}

// doubt records that m may have answered a call.
func (r *Referee) doubt(d *direction, c *call, m *message) {
	d.credits.answerWithout(c.units, uint64(m.credit))
	c.units, c.doubtful = 0, true
	r.v2.freed(d, c)
}

// rpcMessage judges MSG, NOMSG and MSGP of version 1. Only the RPC message
// shows their direction (RFC 8167 §2.1).
func (r *Referee) rpcMessage(m *message) {
	if m.proc == procNomsg {
		r.long(m)
		return
	}
	kind, ok := msgType(m.payload)
	switch {
	case !ok && m.whole && m.length-m.header >= 4:
		r.report("rpc.header", m.from, "XID %#x: an RPC message of %d bytes", m.xid, m.length-m.header)
		r.malformed(m, faultHeader)
	case !ok && m.whole:
		r.malformed(m, faultHeader)
	case !ok:
		r.Gap()
	case kind == rpcCallType:
		r.called(m, m.payload)
	case kind == rpcReplyType:
		r.replied(m, m.payload)
	default:
		r.report("rpc.header", m.from, "XID %#x: msg_type is %d", m.xid, kind)
		r.malformed(m, faultHeader)
	}
}

// long judges NOMSG. A NOMSG with a position-zero chunk is a call. If its XID
// is also that of a call in flight, it may be a reply (RFC 5666 §5.2); then it
// waits until its first words were read. A NOMSG without any bytes may be
// either.
func (r *Referee) long(m *message) {
	c, own := r.dirs[m.from.Peer()].calls[m.xid], r.dirs[m.from].calls[m.xid]
	switch {
	case m.positionZero() && c != nil && own != nil && !own.doubtful: // no second call of its sender
		r.replied(m, nil)
	case m.positionZero() && c == nil && !r.dirs[m.from.Peer()].missed:
		r.called(m, nil)
	case m.positionZero():
		r.park(m, c)
	case c != nil && (c.hasReply || !m.hasReply) && total(m.reply) > 0:
		text := c.result.start()
		r.replied(m, text[:min(uint64(len(text)), total(m.reply))])
	case c != nil && c.doubtful && m.hasReply: // it may answer the call whose XID c has reused
		r.malformed(m, faultHeader)
	case m.hasReply && len(m.reply) > 0 && r.dirs[m.from.Peer()].missed:
	default:
		r.report("header.nomsg", m.from, "XID %#x: NOMSG without a position-zero chunk answers no call", m.xid)
		r.malformed(m, faultHeader)
	}
}

// park keeps a message of unknown direction as a doubtful call that takes no
// credit (RFC 8167 §4.1).
func (r *Referee) park(m *message, c *call) {
	if c != nil {
		r.doubt(r.dirs[m.from.Peer()], c, m)
	}
	m = m.kept()
	m.readWindows(r.frame)
	m.body.parked = m
	r.open(r.dirs[m.from], &call{xid: m.xid, vers: m.vers, frame: r.frame, doubtful: true, windows: m.windows})
}

// unpark judges a parked message once its first words are known.
func (r *Referee) unpark(b *assembly) {
	text := b.start()
	kind, ok := msgType(text)
	if !ok {
		return
	}
	m := b.parked
	b.parked = nil
	if !r.sameXID(m, text) { // the RPC message is neither the call nor the reply of its header
		if c := r.dirs[m.from.Peer()].calls[m.xid]; c != nil { // made since; its caller may take this for its reply
			r.doubt(r.dirs[m.from.Peer()], c, m)
		}
		return
	}
	switch kind {
	case rpcCallType:
		delete(r.dirs[m.from].calls, m.xid)
		if c := r.dirs[m.from.Peer()].calls[m.xid]; c != nil {
			c.doubtful = false
		}
		r.called(m, text)
	case rpcReplyType:
		delete(r.dirs[m.from].calls, m.xid)
		r.replied(m, text)
	default: // the receiver may answer it as a bad call
		r.report("rpc.header", m.from, "XID %#x: msg_type is %d", m.xid, kind)
	}
}

// called judges a call of version 1. text is the known part of the RPC message.
func (r *Referee) called(m *message, text []byte) {
	d := r.dirs[m.from]
	r.sum.askedFor(d, m.credit)
	if m.credit == 0 {
		r.report("credit.request", m.from, "XID %#x asks for no credit", m.xid)
	}
	r.noReply(m, "a call")
	r.chunks(m)
	if m.windows == nil {
		m.readWindows(r.frame)
	}
	c := &call{xid: m.xid, vers: m.vers, frame: r.frame, units: 1, asked: m.credit, length: m.length, reads: m.reads, body: m.body}
	r.targets(m, c)
	c.windows = m.windows
	if !r.open(d, c) {
		return
	}
	r.sum.offered(m)
	if text == nil && c.body != nil { // judged once it was read
		if n := m.longLength(); n < 8 {
			r.report("rpc.header", m.from, "XID %#x: an RPC message of %d bytes", m.xid, n)
		}
		c.long = m.kept()
		return
	}
	r.callText(d, c, m, text)
}

// targets adds the windows of a call's write list and reply chunk.
func (r *Referee) targets(m *message, c *call) {
	for _, chunk := range m.writes {
		w := windowsOf(m, chunk, mayWrite, nil, r.frame)
		c.writes = append(c.writes, w)
		m.windows = append(m.windows, w...)
	}
	c.hasReply = m.hasReply
	if m.hasReply {
		c.result = &assembly{}
		c.reply = windowsOf(m, m.reply, mayWrite, c.result, r.frame)
		m.windows = append(m.windows, c.reply...)
	}
}

// repeat remembers a call that reuses the XID of a call in flight.
func (d *direction) repeat(xid uint32) {
	if len(d.repeated) < maxAnswered {
		d.repeated = append(d.repeated, xid)
	}
}

// again reports whether a second answer may have a reused XID. Each such call
// counts once.
func (d *direction) again(xid uint32) bool {
	i := slices.Index(d.repeated, xid)
	if i >= 0 {
		d.repeated = slices.Delete(d.repeated, i, i+1)
	}
	return i >= 0
}

// unknownAnswer judges an answer whose XID is that of no call in flight.
func (r *Referee) unknownAnswer(d *direction, m *message, what string) {
	switch {
	case d.missed:
	case d.again(m.xid):
	case slices.Contains(d.answered.list, m.xid):
		r.report("reply.twice", m.from, "%s to XID %#x, which was answered before", what, m.xid)
	default:
		r.report("reply.unknown", m.from, "%s to XID %#x, which the %v has not called", what, m.xid, d.caller)
	}
}

// replied judges a reply of version 1. text is the known part of the RPC
// message.
func (r *Referee) replied(m *message, text []byte) {
	d := r.dirs[m.from.Peer()]
	c := d.calls[m.xid]
	if c == nil {
		r.unknownAnswer(d, m, "a reply")
		return
	}
	if c.vers != m.vers && !c.doubtful && c.fault != faultVersion {
		r.report("header.version", m.from, "XID %#x: version %d answers version %d", m.xid, m.vers, c.vers)
	}
	if c.long != nil {
		r.callText(d, c, c.long, c.body.start())
	}
	r.answered(d, c, m)
	r.returned(c, m)
	r.invalidated(d, c, m)
	r.replyText(d, c, m, text)
	r.close(d, c)
	r.expose(d, m)
	r.sum.replied(d, c, m)
}

// answered records the credits that a reply returns and grants.
func (r *Referee) answered(d *direction, c *call, m *message) {
	if m.credit == 0 && len(d.calls) == 1 && !d.missed {
		r.report("credit.zero", m.from, "the reply to XID %#x grants 0 with nothing else in flight", m.xid)
	}
	d.credits.answer(c.units, uint64(m.credit))
	r.sum.granted(d, m.credit)
	if r.sees(m.from) && r.reading(m.from, c.windows) {
		r.report("memory.unfinished", m.from, "XID %#x is answered before the RDMA Read of its chunks is done", m.xid)
	}
}

// expose offers the read list of a reply until DONE (RFC 5666 §3.8).
func (r *Referee) expose(d *direction, m *message) {
	if len(m.reads) == 0 {
		return
	}
	r.readList(m)
	if m.windows == nil {
		m.readWindows(r.frame)
	}
	if !r.memory.offer(m.windows) {
		r.giveUp("more than %d segments are offered", maxWindows)
		return
	}
	r.memory.withdraw(d.exposed[m.xid], r.frame)
	if len(d.exposed) >= maxCalls {
		r.giveUp("more than %d replies with read lists wait for DONE", maxCalls)
		return
	}
	d.exposed[m.xid] = m.windows
}

// done judges DONE, which the requester sends.
func (r *Referee) done(m *message) {
	d := r.dirs[m.from]
	x := d.exposed[m.xid]
	if x == nil {
		if c := r.dirs[m.from.Peer()].calls[m.xid]; c != nil && c.doubtful { // DONE acknowledges the parked reply
			r.close(r.dirs[m.from.Peer()], c)
			if c := d.calls[m.xid]; c != nil && c.doubtful {
				r.close(d, c)
			}
			return
		}
		if !d.missed && !r.dirs[m.from.Peer()].again(m.xid) {
			r.report("done.unexpected", m.from, "DONE with XID %#x, whose reply had no read list or was acknowledged", m.xid)
		}
		return
	}
	if r.sees(m.from) && r.reading(m.from, x) {
		r.report("done.early", m.from, "DONE with XID %#x before the RDMA Read of the reply is done", m.xid)
	}
	r.memory.withdraw(x, r.frame)
	delete(d.exposed, m.xid)
}

// lastError is the last error that a side sent.
type lastError struct {
	xid  uint32
	seen bool
}

// errored judges an error of version 1, which must answer a call.
func (r *Referee) errored(m *message) {
	d := r.dirs[m.from.Peer()]
	c := d.calls[m.xid]
	if c == nil {
		if last := r.lastError[m.from.Peer()]; last.seen && last.xid == m.xid && !d.missed {
			r.report("error.answered", m.from, "an error answers the error with XID %#x", m.xid)
			return
		}
		r.unknownAnswer(d, m, "an error")
		return
	}
	if c.long != nil {
		r.callText(d, c, c.long, c.body.start())
	}
	r.lastError[m.from] = lastError{m.xid, true}
	r.refusedVersion(m)
	r.errorCode(c, m)
	d.credits.answerWithout(c.units, uint64(m.credit))
	r.close(d, c)
}

// errorCode judges whether the error code fits the call.
func (r *Referee) errorCode(c *call, m *message) {
	switch {
	case c.doubtful:
	case m.errCode == errVers && m.versLow <= c.vers && c.vers <= m.versTop && len(r.sum.Versions) == 1:
		r.report("error.version", m.from, "ERR_VERS with %d to %d answers XID %#x of version %d", m.versLow, m.versTop, m.xid, c.vers)
	case m.errCode == errChunk && c.fault == faultVersion:
		r.report("error.code", m.from, "ERR_CHUNK answers XID %#x of version %d", m.xid, c.vers)
	}
}

// noReply judges a message that is no reply.
func (r *Referee) noReply(m *message, what string) {
	if m.invalidates {
		r.report("invalidate.not-reply", m.from, "XID %#x: %s came with Send With Invalidate", m.xid, what)
	}
}

// invalidated judges a reply that came with Send With Invalidate.
func (r *Referee) invalidated(d *direction, c *call, m *message) {
	if !m.invalidates || c.doubtful {
		return
	}
	if !r.mayInvalidate(m.vers, d.caller) {
		r.report("invalidate.not-agreed", m.from, "the reply to XID %#x invalidates STag %#x", m.xid, m.stag)
		return
	}
	var own *window
	only := true
	for _, w := range c.windows {
		if w.stag == m.stag {
			own = w
		} else {
			only = false
		}
	}
	if own == nil {
		r.report("invalidate.foreign", m.from, "the reply to XID %#x invalidates STag %#x, which that call did not offer", m.xid, m.stag)
		return
	}
	for _, w := range r.memory.windows[d.caller][m.stag] {
		if !only && w.xid != c.xid && w.seq < own.seq && !d.missed {
			r.report("invalidate.shared", m.from, "the reply to XID %#x invalidates STag %#x, which XID %#x has offered, too", m.xid, m.stag, w.xid)
			return
		}
	}
}

func (r *Referee) mayInvalidate(vers uint32, owner Side) bool {
	if vers == 2 {
		return r.mayInvalidate2(owner)
	}
	return r.mayInvalidate1()
}
