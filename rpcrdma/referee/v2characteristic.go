package referee

import (
	"errors"
	"math"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

// noSize is larger than any receive size.
const noSize = math.MaxUint32

// initSize is the largest INIT, in bytes (wire reference §5.1).
const initSize = 1024

// init judges INIT. The server's INIT either answers the client's, or is its
// own first message with an XID of its own. Both are lawful.
func (r *Referee) init(h *header2, x *goxdr.Optinit_xch) {
	s := r.v2.side(h.from)
	answer := h.from == Server && r.dirs[Client].calls[h.xid] != nil // the client's INIT caused the messages that the server sent before
	if s.spoke && !answer && !r.v2.missed {
		r.report("init.first", h.from, "XID %#x: INIT is not the first message", h.xid)
	}
	if h.length > initSize {
		r.report("init.size", h.from, "XID %#x: INIT has %d bytes", h.xid, h.length)
	}
	before, fixed := s.traits.last(), s.fixed
	s.fixed = 0
	r.tell(h, x.Optixch_start, true)
	for i, v := range x.Optixch_start {
		if in(x.Optixch_nochg, i) && v.Xchv_which < 64 {
			s.fixed |= 1 << v.Xchv_which
		}
	}
	r.pairInit(h)
	if c := r.dirs[h.from].calls[h.xid]; c != nil && c.v2.seq == h.seq {
		c.v2.before, c.v2.fixed = &before, fixed
	}
}

// pairInit opens the client's INIT as a call and closes it with the server's.
func (r *Referee) pairInit(h *header2) {
	if h.from == Client {
		if h.dir == goxdr.CALL {
			r.ask(h, nil)
		}
		return
	}
	d := r.dirs[Client]
	if c := d.calls[h.xid]; c != nil && c.v2.op == opInit {
		r.answer2(d, c, h.message)
		return
	}
	for _, c := range d.calls {
		c.doubtful = c.doubtful || c.v2.op == opInit
	}
}

// in reports whether a subset names element i (wire reference §5.1).
func in(s goxdr.Xcharsubset, i int) bool { return i/32 < len(s) && s[i/32]>>(i%32)&1 != 0 }

// request judges REQUEST. Its sender keeps to the smaller size from now on.
func (r *Referee) request(h *header2, x *goxdr.Optreq_xch) {
	r.ask(h, x.Optrqxch_want)
	s, peer := r.v2.side(h.from), r.v2.side(h.from.Peer())
	t := untold
	for _, v := range x.Optrqxch_want {
		if err := t.set(v); err != nil {
			r.report("characteristic.malformed", h.from, "XID %#x: %v", h.xid, err)
		}
	}
	if t.size == nil {
		return
	}
	peer.least = min(peer.least, *t.size)
	if now := peer.traits.last(); *t.size < now.receives(defaultSize) {
		s.asked, s.askedFor = *t.size, h.xid
	}
}

// asked returns what an operation may answer, and its direction.
func (r *Referee) asked(h *header2) (*direction, *call) {
	if own := r.v2.side(h.from.Peer()).own; own.calls[h.xid] != nil {
		return own, own.calls[h.xid]
	}
	d := r.dirs[h.from.Peer()]
	return d, d.calls[h.xid]
}

// respond judges RESPOND.
func (r *Referee) respond(h *header2, x *goxdr.Optresp_xch) {
	asker := r.v2.side(h.from.Peer())
	d, c := r.asked(h)
	if c == nil || c.v2.op != opRequest {
		if !d.missed {
			r.report("respond.unmatched", h.from, "XID %#x: RESPOND answers no REQUEST", h.xid)
		}
		return
	}
	var done goxdr.Xcharset
	lowered := false
	for i, v := range c.v2.want {
		was, is := in(x.Optrsxch_done, i), in(x.Optrsxch_rej, i)
		if was == is {
			r.report("respond.subsets", h.from, "XID %#x: element %d is done: %v, rejected: %v", h.xid, i, was, is)
		}
		if was && !is {
			done = append(done, v)
			lowered = lowered || v.Xchv_which == charSize
		}
	}
	r.answer2(d, c, h.message)
	keeps, mine := asker.asked, asker.askedFor == h.xid
	r.tell(h, done, false)
	if lowered && h.length == h.header { // the peer still keeps to the size that it asked for
		asker.asked = keeps
	} else if mine {
		asker.asked = 0
	}
	r.tell(h, x.Optrsxch_other, false)
}

// tell judges the characteristics that a side announces, and records them.
func (r *Referee) tell(h *header2, set goxdr.Xcharset, first bool) {
	if len(set) == 0 {
		return
	}
	s, peer := r.v2.side(h.from), r.v2.side(h.from.Peer())
	old := s.traits.last()
	now, sized, sound := old, false, true
	clear := h.length == h.header // as far as every receiver has to believe it
	for _, v := range set {
		if err := now.set(v); err != nil {
			r.report("characteristic.malformed", h.from, "XID %#x: %v", h.xid, err)
			sound = sound && errors.Is(err, errSum)
			clear = false
		}
		sized = sized || v.Xchv_which == charSize
		if which := v.Xchv_which; !first && which < 64 && s.fixed>>which&1 != 0 && !now.same(&old, which) {
			r.report("init.nochg", h.from, "XID %#x changes characteristic %d", h.xid, which)
		}
	}
	switch {
	case !sound: // its receiver refuses all of it
		return
	case !clear, !now.possible(): // or may
		s.traits.say(h.seq, now)
		s.traits.say(either, old)
		peer.asked = 0
		return
	}
	if sized {
		was, is := old.receives(defaultSize), now.receives(defaultSize)
		if !first && !r.v2.missed && is < was && is < s.least {
			r.report("characteristic.lowered", h.from, "XID %#x lowers the size of receives from %d to %d, which the peer did not ask for", h.xid, was, is)
		}
		peer.asked = 0
	}
	if other, may := s.traits.other(); may { // the receiver took what it might have refused
		for _, v := range set {
			_ = other.set(v) // reported above
		}
		s.traits.say(h.seq, other)
		s.traits.say(either, now)
		return
	}
	s.traits.say(h.seq, now)
}

// keepsTo judges a Send against the receive size that its sender asked for.
func (r *Referee) keepsTo(m *message) {
	if asked := r.v2.side(m.from).asked; asked > 0 && m.length > int(asked) {
		r.report("characteristic.asked", m.from, "XID %#x: a Send of %d bytes after a REQUEST for receives of %d", m.xid, m.length, asked)
	}
}
