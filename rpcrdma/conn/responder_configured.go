package conn

import "github.com/rdmad/rdmad/rpcrdma/settings"

// Configured is the event that the peer announced with the Connection Configuration
// Protocol that it takes maxReply bytes in one Send and lets reads RDMA Reads be active at
// once. The peer has posted these receives already. If the peer announced a size at
// connect, that size is fixed and bounds maxReply. The size that we announced at connect
// does not bound it.
func (r *Responder) Configured(maxReply, reads uint32) {
	most := uint32(settings.InlineMax)
	if r.cfg.PeerSaid {
		most = r.cfg.PeerReceive
	}
	r.peer.set(maxReply, reads, most)
}

// Offers reports whether the Connection Configuration Protocol is on, and the alignment, in
// bytes, to put into its answer.
func (r *Responder) Offers() (on bool, align uint32) {
	if r.padding.sends {
		align = PadAlign
	}
	return r.settings.Extensions.Has(settings.ExtCCP), align
}
