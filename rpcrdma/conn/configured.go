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

// Configuration is what the peer told through the Connection Configuration
// Protocol.
type Configuration struct {
	Spoken bool
	// Takes is the most of one Send that it takes, in bytes, as it is used;
	// Align the alignment that it asked for, 0 is none; Reads the number of
	// RDMA Reads that may be active at it.
	Takes, Align, Reads uint32
}
