package conn

// Configured is the event that the peer told through the Connection
// Configuration Protocol that it takes maxReply bytes in one Send and lets
// reads RDMA Reads be active at once. It has the receives posted already, or
// it would not say so, but a size told at connect is fixed: that bounds it.
// The size that we announced at connect does not bound it: the peer knows better
// now.
func (r *Responder) Configured(maxReply, reads uint32) {
	most := uint32(InlineMax)
	if r.cfg.PeerSaid {
		most = r.cfg.PeerReceive
	}
	r.peer.set(maxReply, reads, most)
}

// Configuration tells what the peer told.
func (r *Responder) Configuration() Configuration {
	return Configuration{Spoken: r.peer.spoken, Takes: r.peer.takes, Reads: r.peer.reads}
}

// Offers says whether the Connection Configuration Protocol is on, and with
// which alignment a peer that asks is answered.
func (r *Responder) Offers() (on bool, align uint32) {
	if r.padding.sends {
		align = PadAlign
	}
	return r.settings.Extensions.Has(ExtCCP), align
}
