package conn

// Configured is the event that the peer answered the Connection Configuration
// Protocol: it takes maxCall bytes in one Send, recommends to align opaque
// data to align bytes (0 or what is no alignment: not at all), and lets reads
// RDMA Reads be active at once. most bounds maxCall: what the peer told at
// connect, or InlineMax. No call may be planned and not complete.
func (r *Requester) Configured(maxCall, align, reads, most uint32) {
	r.peer.set(maxCall, reads, most)
	r.padding.tell(align)
}

// SendMax is the most of one Send that we want to make, in bytes.
func (r *Requester) SendMax() uint32 { return r.settings.InlineSendMax }

// Configuration tells what the peer told.
func (r *Requester) Configuration() Configuration {
	return Configuration{Spoken: r.peer.spoken, Takes: r.peer.takes, Align: r.padding.align, Reads: r.peer.reads}
}
