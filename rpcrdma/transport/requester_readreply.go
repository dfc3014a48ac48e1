package transport

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// reading is the transport's state of a reply that it reads (RFC 5666 §3.8). The reply is
// read into our own memory, so that a call that is given up need not wait for it.
type reading struct {
	r    *Requester
	core *conn.Reading
	fetch
}

var _ fetcher = (*reading)(nil)

// fetchReply implements the FetchReply action.
func (r *Requester) fetchReply(rd *conn.Reading) {
	x := &reading{r: r, core: rd, fetch: fetch{list: &rd.Reads, reads: rd.Fetches}}
	x.owner = x
	r.readings = append(r.readings, x)
	r.fetch(&x.fetch)
}

func (x *reading) late()    {}
func (x *reading) behind()  {}
func (x *reading) reading() {}
func (x *reading) posted()  {}
func (x *reading) read(int) {}

// fetched passes the reply's memory on to its call, unless the call was given up.
func (x *reading) fetched() {
	r, rd := x.r, x.core
	if o := rd.Out(); o != nil {
		p := r.pend[o.Tag]
		p.read, p.parts = x.buf, x.parts
		x.buf, x.parts = nil, nil
	}
	r.readings = slices.DeleteFunc(r.readings, func(y *reading) bool { return y == x })
	r.releaseFetch(&x.fetch)
	r.do(r.core.ReplyFetched(rd, r.acts))
}

// unfetched ends the connection, and the calls on it.
func (x *reading) unfetched(err error) { x.r.dieLocked(err) }

// sendNotice sends a header that gets no answer.
func (r *Requester) sendNotice(h conn.Header) {
	if o, msg := r.message(opNotice, h.Size()); o != nil {
		h.Append(msg[:0])
		r.submit(o)
	}
}

// freeReadings frees the memory of replies that were being read. The queue pair is
// destroyed.
func (r *Requester) freeReadings() {
	for _, x := range r.readings {
		r.releaseFetch(&x.fetch)
	}
}

// readMessage assembles a reply that was read. It places results where they would have been
// written, and puts other items into the message.
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
