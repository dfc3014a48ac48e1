package transport

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Statistics of a responder: calls of the forward direction and their replies. link.mu
// is held.

// countCall counts a call that is being delivered.
func (r *Responder) countCall(c *call) {
	if r.reverse {
		return
	}
	s := &r.stats
	reads, writes, reply, bytes := c.call.Offered()
	s.ReadChunks += uint64(reads)
	s.WriteChunks += uint64(writes)
	s.ReplyChunks += uint64(reply)
	s.OfferedBytes += bytes
	if c.call.Reads.Long() {
		s.LongCalls++
	}
	r.sizes.Calls.add(c.messageSize())
}

// messageSize returns the size of the RPC call message, in bytes.
func (c *call) messageSize() int {
	rpc := &c.call.RPC
	n := len(rpc.Args.Stream)
	if c.call.Denied != nil { // the whole message
		return n
	}
	n += callHeaderSize + xdr.Padded(len(rpc.Cred.Body)) + xdr.Padded(len(rpc.Verf.Body))
	for i := range rpc.Args.Items {
		n += xdr.Padded(rpc.Args.Items[i].Len())
	}
	return n
}

// countReply counts a reply that a service made.
func (r *Responder) countReply(c *call) {
	if r.reverse {
		return
	}
	n := len(c.reply.Stream)
	for i := range c.plan {
		n += xdr.Padded(c.plan[i].Len)
	}
	r.sizes.Replies.add(n)
	r.stats.RoundTrips++
}
