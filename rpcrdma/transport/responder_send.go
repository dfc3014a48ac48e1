package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// replied gives a service's reply to the core. The arguments are no longer needed.
func (r *Responder) replied(c *call) {
	c.plan = c.plan[:0]
	for i := range c.reply.Items {
		it := &c.reply.Items[i]
		c.plan = append(c.plan, chunk.Item{Pos: it.Pos, Len: it.Len, Asked: it.Asked, Absent: it.Absent})
	}
	r.countReply(c)
	r.core.Aim(int(r.aim.Load()))
	r.acts = r.core.Reply(c.call, len(c.reply.Stream), c.plan, r.acts)
	r.releaseFetch(&c.fetch)
}

// send posts a call's answer: its RDMA Writes, then its Sends.
func (r *Responder) send(c *call) {
	a := &c.call.Answer
	o := r.sq.newOp(opAnswer, c.call.Index)
	var ok bool
	if a.Failed {
		ok = r.sendMessage(o, c)
		r.releaseReply(c)
	} else {
		ok = r.place(o, c)
	}
	if !ok {
		o.release()
		r.sq.recycle(o)
		return
	}
	r.stats.InFlightSum += uint64(r.core.Busy())
	r.stats.BacklogSum += uint64(r.waiting.len())
	if c.buf != nil {
		o.hold(c.buf)
	}
	for _, b := range c.ahead {
		o.hold(b)
	}
	clear(c.ahead)
	c.buf, c.head, c.ahead = nil, 0, c.ahead[:0]
	o.times = c.times
	o.signal = o.signal || !r.sq.mayDetach(o) || r.slow.SoFar(c.times)
	r.submit(o)
	if o.signal || o.posted < len(o.wrs) || r.dead {
		o.signal = true
		return
	}
	r.sq.detach(o)
	o.times = nil
	r.sent(c)
}

// releaseReply frees a reply that is not sent.
func (r *Responder) releaseReply(c *call) {
	c.reply.Release()
	c.reply.Stream = nil
	r.releaseFetch(&c.fetch)
}

// place adds a reply's requests to o.
func (r *Responder) place(o *op, c *call) bool {
	a := &c.call.Answer
	if !r.locate(o, c) {
		return false
	}
	for i := range a.Writes {
		w := &a.Writes[i]
		r.addWrite(o, w, r.piece(c, w.From, w.Off, w.Length))
	}
	return r.sendMessage(o, c)
}

// addWrite adds an RDMA Write of the data at from.
func (r *Responder) addWrite(o *op, w *chunk.Write, from verbs.SGE) {
	o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpRDMAWrite, SGL: o.sgl(from), RemoteAddr: w.Addr, RKey: w.RKey})
	r.stats.RDMAWrites++
	r.stats.BytesSent += uint64(w.Length)
	r.stats.PlacedBytes += uint64(w.Length)
}

// locate finds where the reply's stream and items are sent from. Data outside our
// registered memory is copied into it, or registered for this Send. o then owns our memory.
func (r *Responder) locate(o *op, c *call) bool {
	if s := c.reply.Stream; c.buf != nil && len(s) > 0 && &s[0] == &c.buf.Bytes()[c.head] {
		c.stream = source{c.buf, c.head}
	} else if b := r.stage(o, s); b != nil {
		c.stream = source{b, 0}
		if c.reply.Storage != nil && b.Pooled() { // copied: others may wait for it
			c.reply.Storage.Release()
			c.reply.Stream, c.reply.Storage = nil, nil
		}
	} else {
		return false
	}
	for i := range c.reply.Items {
		it := &c.reply.Items[i]
		b := r.pooled(it.Buf)
		if b == nil {
			if b = r.stage(o, it.Buf.Bytes()[:it.Len]); b == nil {
				return false
			}
		}
		c.sources = append(c.sources, source{b, 0})
	}
	c.yield(o)
	return true
}

// yield gives o the memory of items that are sent without a copy, and releases that of items
// that were copied. The peer may take any time, and others may wait for the memory.
func (c *call) yield(o *op) {
	kept := c.reply.Items[:0]
	for i, it := range c.reply.Items {
		switch b := c.sources[i].buf; {
		case it.Buf == oncrpc.Buffer(b):
			o.hold(b)
		case b.Pooled():
			it.Buf.Release()
		default: // registered where it is
			kept = append(kept, it)
		}
	}
	clear(c.reply.Items[len(kept):])
	c.reply.Items = kept
}

// stage puts data into registered memory until o ends. That is a copy in the pool or, when
// the pool is full, a registration, under which the data must not change. The copy is
// charged to the connection's share even if that exceeds it, because stage cannot wait.
func (r *Responder) stage(o *op, data []byte) *regmem.Buffer {
	b := r.host.pool.TryAlloc(len(data), regmem.Service)
	if b != nil {
		n := int64(len(b.Bytes()))
		r.shares.replies.Force(n)
		b.Charge(r.shares.replies, n)
		r.stats.PullupBytes += uint64(copy(b.Bytes(), data))
	} else {
		var err error
		if b, err = r.host.pool.Register(data); err != nil {
			r.dieLocked(err)
			return nil
		}
		r.stats.Registrations++
		r.stats.HardwayRegs++
	}
	o.hold(b)
	return b
}

// piece returns the memory of a piece of a reply.
func (r *Responder) piece(c *call, from chunk.Source, off, n int) verbs.SGE {
	switch from {
	case chunk.Stream:
		return c.stream.sge(off, n)
	case chunk.Zeros:
		return r.host.zeros.SGE(0, n)
	}
	return c.sources[from].sge(off, n)
}

// sendMessage adds the Sends: the header, directly before the stream in buf, with the
// pieces, then any further transmissions.
func (r *Responder) sendMessage(o *op, c *call) bool {
	a := &c.call.Answer
	head := source{c.buf, c.head}
	first, ok := r.header(o, head, a.Header)
	if !ok {
		return false
	}
	inline := a.Inline
	if len(inline) > 0 && inline[0].From == chunk.Stream && c.stream == head && head.follows(first) {
		first.Length += inline[0].Len
		inline = inline[1:]
	}
	if !r.sendPieces(o, c, first, inline) {
		return false
	}
	if len(a.More) > 0 && !r.sendMore(o, c) {
		return false
	}
	if a.Invalidate {
		last := &o.wrs[len(o.wrs)-1]
		last.Op, last.InvalidateRKey = verbs.OpSendInvalidate, a.RKey
	}
	return true
}

// sendMore adds the transmissions after the first. Their headers share one buffer.
func (r *Responder) sendMore(o *op, c *call) bool {
	more := c.call.Answer.More
	b := r.buffer(len(more) * transmission.ContinueSize)
	if b == nil {
		return false
	}
	o.hold(b)
	for i := range more {
		off := i * transmission.ContinueSize
		more[i].Header.Append(b.Bytes()[off:off])
		if !r.sendPieces(o, c, b.SGE(off, transmission.ContinueSize), more[i].Inline) {
			return false
		}
	}
	return true
}

// sendPieces adds a Send of a header and pieces. If there are too many pieces for a Send,
// it copies them into one.
func (r *Responder) sendPieces(o *op, c *call, first verbs.SGE, inline []chunk.Piece) bool {
	at := len(o.sges)
	o.sges = append(o.sges, first)
	if len(inline) >= r.maxSend() {
		whole, ok := r.gather(o, c, inline)
		if !ok {
			return false
		}
		o.sges, inline = append(o.sges, whole), nil
	}
	for _, p := range inline {
		o.sges = append(o.sges, r.piece(c, p.From, p.Off, p.Len))
	}
	r.addSend(o, o.sges[at:len(o.sges):len(o.sges)])
	return true
}

// header encodes a header so that it ends at end. A header that is larger than expected
// when the call was delivered, because settings changed or memory was scarce, gets its own memory.
func (r *Responder) header(o *op, end source, h *conn.Header) (verbs.SGE, bool) {
	size := h.Size()
	if size > end.off {
		b := r.buffer(size)
		if b == nil {
			return verbs.SGE{}, false
		}
		o.hold(b)
		end = source{b, size}
	}
	start := end.off - size
	h.Append(end.buf.Bytes()[start:start:end.off])
	return end.buf.SGE(start, size), true
}

// maxSend returns how many entries a Send may have.
func (r *Responder) maxSend() int { return min(maxSGE, r.host.attr.MaxSGE) }

// gather copies pieces into one buffer.
func (r *Responder) gather(o *op, c *call, pieces []chunk.Piece) (whole verbs.SGE, ok bool) {
	n := chunk.Length(pieces)
	b := r.buffer(n)
	if b == nil {
		return verbs.SGE{}, false
	}
	o.hold(b)
	r.stats.PullupBytes += uint64(n)
	dst := b.Bytes()[:0]
	for _, p := range pieces {
		s := r.piece(c, p.From, p.Off, p.Len)
		dst = append(dst, s.MR.Bytes()[s.Offset:s.Offset+s.Length]...)
	}
	return b.SGE(0, n), true
}

// sent ends a call whose answer has completed, or holds its buffers itself.
func (r *Responder) sent(c *call) {
	r.took(c, r.now, false)
	r.core.Sent(c.call)
	c.release()
}
