package conn

// Configured is the event that the peer answered the Connection Configuration Protocol. The
// peer takes maxCall bytes in one Send, asks for opaque data aligned to align bytes (0 or
// an invalid alignment means none), and lets reads RDMA Reads be active at once. most
// bounds maxCall: it is what the peer announced at connect, or InlineMax. All planned calls
// must have completed before this event.
func (r *Requester) Configured(maxCall, align, reads, most uint32) {
	r.peer.set(maxCall, reads, most)
	r.padding.tell(align)
}
