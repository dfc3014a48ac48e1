package conn

import "errors"

// ErrNoReads means that a peer said that nobody may RDMA Read its memory, or
// that it reads nobody's.
var ErrNoReads = errors.New("conn: the peer does no RDMA Reads")

// configured is what the peer told through the Connection Configuration
// Protocol (RFC 5666 §6).
type configured struct {
	spoken bool
	takes  uint32 // the most of one Send, in bytes
	reads  uint32 // RDMA Reads at once
}

// set takes what the peer says of itself: the most of one Send that it takes,
// which is not below what every peer takes and not above most.
func (c *configured) set(takes, reads, most uint32) {
	*c = configured{spoken: true, takes: min(max(takes, InlineMin), most), reads: reads}
}

// receive is what the peer takes in one Send, otherwise when it did not say.
func (c *configured) receive(otherwise uint32) uint32 {
	if c.spoken {
		return c.takes
	}
	return otherwise
}

// unreadable says that there can be no RDMA Reads.
func (c *configured) unreadable() bool { return c.spoken && c.reads == 0 }

// Configured is the event that the peer told through the Connection
// Configuration Protocol that it takes maxReply bytes in one Send and lets
// reads RDMA Reads be active at once. It has the receives posted already, or
// it would not say so, but a size told at connect is fixed: that bounds it.
// What we told it at connect does not: it knows better now.
func (r *Responder) Configured(maxReply, reads uint32) {
	most := uint32(InlineMax)
	if r.cfg.PeerSaid {
		most = r.cfg.PeerReceive
	}
	r.peer.set(maxReply, reads, most)
}

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

// Configuration is what the peer told through the Connection Configuration
// Protocol.
type Configuration struct {
	Spoken bool
	// Takes is the most of one Send that it takes, in bytes, as it is used;
	// Align the alignment that it asked for, 0 is none; Reads the number of
	// RDMA Reads that may be active at it.
	Takes, Align, Reads uint32
}

// Configuration tells what the peer told.
func (r *Responder) Configuration() Configuration {
	return Configuration{Spoken: r.peer.spoken, Takes: r.peer.takes, Reads: r.peer.reads}
}

// Configuration tells what the peer told.
func (r *Requester) Configuration() Configuration {
	return Configuration{Spoken: r.peer.spoken, Takes: r.peer.takes, Align: r.padding.align, Reads: r.peer.reads}
}

// Offers says whether the Connection Configuration Protocol is on, and with
// which alignment a peer that asks is answered.
func (r *Responder) Offers() (on bool, align uint32) {
	if r.padding.sends {
		align = PadAlign
	}
	return r.settings.Extensions.Has(ExtCCP), align
}
