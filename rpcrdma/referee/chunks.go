package referee

import (
	"cmp"
	"math"
	"slices"
)

// chunks judges the chunk lists of a call.
func (r *Referee) chunks(m *message) {
	r.readList(m)
	targets := append(slices.Concat(m.writes...), m.reply...)
	for _, s := range targets {
		r.wraps(m, s)
	}
	r.disjoint(m, targets)
}

// readList judges the read list of a call or a reply.
func (r *Referee) readList(m *message) {
	r.readOrder(m)
	if m.proc != procNomsg && m.positionZero() {
		r.report("chunk.position-zero", m.from, "XID %#x: a read chunk at position 0 with procedure %d", m.xid, m.proc)
	}
	for _, s := range m.reads {
		r.wraps(m, s.segment)
	}
}

func (r *Referee) wraps(m *message, s segment) {
	if s.length > 0 && s.offset > math.MaxUint64-uint64(s.length-1) {
		r.report("chunk.wraps", m.from, "XID %#x: segment of STag %#x with %d bytes at %#x", m.xid, s.stag, s.length, s.offset)
	}
}

// disjoint judges whether the segments that a call offers for results overlap.
func (r *Referee) disjoint(m *message, targets []segment) {
	targets = slices.DeleteFunc(targets, func(s segment) bool { return s.length == 0 })
	slices.SortFunc(targets, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.stag, b.stag), cmp.Compare(a.offset, b.offset))
	})
	for i := 1; i < len(targets); i++ {
		a, b := targets[i-1], targets[i]
		if a.stag == b.stag && b.offset-a.offset < uint64(a.length) {
			r.report("chunk.targets", m.from, "XID %#x: two segments of STag %#x overlap at %#x", m.xid, a.stag, b.offset)
			return
		}
	}
}

// readOrder judges the positions of a read list.
func (r *Referee) readOrder(m *message) {
	var end uint64 // end of the previous chunk in the message
	for i, s := range m.reads {
		if s.position%4 != 0 {
			r.report("chunk.position", m.from, "XID %#x: a read chunk at position %d", m.xid, s.position)
			return
		}
		if i == 0 || s.position == m.reads[i-1].position {
			end = max(end, uint64(s.position)) + uint64(s.length)
			continue
		}
		before := m.reads[i-1].position
		switch {
		case s.position < before && s.position == 0:
			r.report("chunk.position-zero", m.from, "XID %#x: the position-zero chunk comes behind position %d", m.xid, before)
			return
		case s.position < before:
			r.report("chunk.order", m.from, "XID %#x: position %d comes behind %d", m.xid, s.position, before)
			return
		case before != 0 && uint64(s.position) < end:
			r.report("chunk.overlap", m.from, "XID %#x: the chunk at position %d begins within the one at %d, which has %d bytes",
				m.xid, s.position, before, end-uint64(before))
			return
		}
		end = uint64(s.position) + uint64(s.length)
	}
	r.beyond(m)
}

// beyond judges whether the read chunks of MSG and NOMSG are within the message. A
// chunk at the very end of the message is allowed.
func (r *Referee) beyond(m *message) {
	length := uint64(m.length - m.header)
	switch {
	case m.proc == procNomsg && m.positionZero():
		length = m.longLength()
	case m.proc != procMsg || m.positionZero():
		return
	}
	for i, s := range m.reads {
		if s.position == 0 {
			continue
		}
		if uint64(s.position) > length {
			r.report("chunk.beyond", m.from, "XID %#x: a read chunk at position %d of a message that has %d bytes before it", m.xid, s.position, length)
			return
		}
		length += uint64(s.length)
		if i+1 == len(m.reads) || m.reads[i+1].position != s.position {
			length = roundup(length)
		}
	}
}

func roundup(n uint64) uint64 { return (n + 3) &^ 3 }

// returned judges the chunk lists of a reply against those of its call.
func (r *Referee) returned(c *call, m *message) {
	if c.fault != faultNone || c.doubtful {
		return
	}
	if len(m.writes) != len(c.writes) {
		r.report("returned.writes", m.from, "XID %#x: %d write chunks come back of %d", m.xid, len(m.writes), len(c.writes))
	} else {
		for i, chunk := range m.writes {
			r.returnedChunk("returned.writes", m, c.writes[i], chunk)
		}
	}
	switch {
	case m.hasReply && !c.hasReply:
		r.report("returned.reply", m.from, "XID %#x: a reply chunk comes back that was not offered", m.xid)
	case m.hasReply:
		r.returnedChunk("returned.reply", m, c.reply, m.reply)
		if m.proc != procNomsg && total(m.reply) > 0 {
			r.report("returned.inline", m.from, "XID %#x: MSG returns a reply chunk of %d bytes", m.xid, total(m.reply))
		}
	}
	if m.proc == procNomsg && !m.positionZero() && total(m.reply) == 0 {
		r.report("header.nomsg", m.from, "XID %#x: NOMSG with an empty reply chunk", m.xid)
	}
}

func total(list []segment) (n uint64) {
	for _, s := range list {
		n += uint64(s.length)
	}
	return n
}

// returnedChunk judges one chunk that a reply returns.
func (r *Referee) returnedChunk(rule string, m *message, offered []*window, got []segment) {
	if len(got) != len(offered) {
		r.report(rule, m.from, "XID %#x: a chunk comes back with %d segments of %d", m.xid, len(got), len(offered))
		return
	}
	last := len(got)
	for last > 0 && got[last-1].length == 0 {
		last--
	}
	for i, s := range got {
		w := offered[i]
		switch {
		case s.stag != w.stag || s.offset != w.offset:
			r.report(rule, m.from, "XID %#x: segment %d comes back as STag %#x at %#x, was %#x at %#x", m.xid, i, s.stag, s.offset, w.stag, w.offset)
			return
		case s.length > w.length:
			r.report("returned.length", m.from, "XID %#x: segment %d comes back with %d bytes of %d", m.xid, i, s.length, w.length)
			return
		case i < last-1 && s.length < w.length:
			r.report("returned.gap", m.from, "XID %#x: segment %d comes back with %d bytes of %d, and another behind it is used", m.xid, i, s.length, w.length)
			return
		}
		r.wasWritten(m, w, i, s.length, i == last-1)
	}
}

// wasWritten judges whether RDMA Write filled a returned segment. At the end of
// a chunk the length may include a roundup that is not written (RFC 5666 §3.7).
func (r *Referee) wasWritten(m *message, w *window, i int, length uint32, end bool) {
	if !r.sees(m.from) {
		return
	}
	want := uint64(length)
	if end {
		want -= min(want, 3)
	}
	if !w.written.holds(want) {
		r.report("returned.unwritten", m.from, "XID %#x: segment %d comes back with %d bytes, which RDMA Write has not filled", m.xid, i, length)
	}
}
