package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
)

// reading is what the transport keeps for a reply that it reads (RFC 5666
// §3.8). It is read into memory of our own, so that a call that is given up
// need not wait for it.
type reading struct {
	core  *conn.Reading // nil: free
	buf   *regmem.Buffer
	size  int      // bytes of all chunks
	parts [][]byte // where each chunk is in buf
}

// fetchReply implements the FetchReply action: memory, then RDMA Reads, in
// turn.
func (r *Requester) fetchReply(rd *conn.Reading) {
	x := r.newReading(rd)
	for i := range rd.Reads.Chunks {
		x.size = align(x.size) + rd.Reads.Chunks[i].Length
	}
	r.toRead.push(x)
	r.nextReading()
}

func (r *Requester) newReading(rd *conn.Reading) *reading {
	for i, x := range r.readings {
		if x.core == nil {
			rd.Tag = i
			*x = reading{core: rd}
			return x
		}
	}
	x := &reading{core: rd}
	rd.Tag = len(r.readings)
	r.readings = append(r.readings, x)
	return x
}

// nextReading begins with the oldest replies to be read for which this
// connection may take memory. A goroutine waits if the pool has none; those
// behind wait for it.
func (r *Requester) nextReading() {
	for !r.starved && r.toRead.len() > 0 && r.reading+r.toRead.peek().size <= maxFetching {
		x := r.toRead.pop()
		r.reading += x.size
		if x.buf = r.host.tryTake(r.shares.fetches, x.size, regmem.Fetch); x.buf != nil {
			r.readReply(x)
			continue
		}
		r.starved = true
		r.busy.Go(func() {
			b, err := r.host.take(r.ctx, r.shares.fetches, x.size, regmem.Fetch)
			r.mu.Lock()
			defer r.mu.Unlock()
			x.buf, r.starved = b, false
			switch {
			case r.dead: // freed with the rest
				return
			case err != nil:
				r.dieLocked(err)
				return
			}
			r.readReply(x)
			r.nextReading()
			r.carryOut()
		})
	}
}

// readReply posts the RDMA Reads of a reply whose memory is there.
func (r *Requester) readReply(x *reading) {
	mem, off := x.buf.Bytes(), 0
	offs := make([]int, 0, len(x.core.Reads.Chunks))
	for i := range x.core.Reads.Chunks {
		off = align(off)
		n := x.core.Reads.Chunks[i].Length
		offs = append(offs, off)
		x.parts = append(x.parts, mem[off:off+n:off+n])
		off += n
	}
	if len(x.core.Fetches) == 0 {
		r.replyRead(x)
		return
	}
	o := r.sq.newOp(opReadReply, x.core.Tag)
	o.signal = true
	if err := r.prepareSink(o, x.buf, x.size); err != nil {
		r.sq.recycle(o)
		r.dieLocked(err)
		return
	}
	for _, f := range x.core.Fetches {
		o.wrs = append(o.wrs, verbs.SendWR{
			Op: verbs.OpRDMARead, SGL: o.sgl(o.sinkOf(x.buf, offs[f.Chunk]+f.Off, f.Length)),
			RemoteAddr: f.Addr, RKey: f.RKey,
		})
		r.stats.RDMAReads++
		r.stats.BytesReceived += uint64(f.Length)
	}
	r.submit(o)
}

// replyRead: the reply is here. Its call, if there still is one, has the
// memory from now on.
func (r *Requester) replyRead(x *reading) {
	if o := x.core.Out(); o != nil {
		p := r.pend[o.Tag]
		p.read, p.parts = x.buf, x.parts
	} else {
		x.buf.Release()
	}
	rd := x.core
	r.reading -= x.size
	*x = reading{}
	r.acts = r.core.ReplyFetched(rd, r.acts)
	r.nextReading()
}

// sendNotice sends a header that gets no answer.
func (r *Requester) sendNotice(h conn.Header) {
	n := h.Size()
	b := r.buffer(n)
	if b == nil {
		return
	}
	h.Append(b.Bytes()[:0])
	o := r.sq.newOp(opNotice, 0)
	o.hold(b)
	r.addSend(o, o.sgl(b.SGE(0, n)))
	r.submit(o)
}

// freeReadings gives back the memory of replies that were being read. The
// queue pair is gone.
func (r *Requester) freeReadings() {
	for _, x := range r.readings {
		if x.buf != nil {
			x.buf.Release()
		}
		*x = reading{}
	}
}

// readMessage puts a reply together that was read: its results are placed where
// they would have been written, other items go into the message.
func (p *pending) readMessage(c *RPC) []byte {
	rd, parts := p.out.Read, p.parts
	msg := rd.Stream
	if rd.Reads.Long() {
		msg, parts = parts[0], parts[1:]
	}
	for k, i := range rd.Results {
		res := &c.Results[i]
		res.Apart = copy(res.Buf.Bytes()[:res.Max], parts[k])
		p.fixup += res.Apart
	}
	if len(rd.Results) > 0 || len(parts) == 0 {
		return msg
	}
	dst, off := p.reply[:0], 0
	for k, it := range rd.Reads.Items() {
		dst = append(append(dst, msg[off:it.At]...), parts[k]...)
		dst = xdr.AppendPad(dst, len(parts[k]))
		off = it.At
	}
	p.reply = append(dst, msg[off:]...)
	return p.reply
}
