package conn

import "errors"

// ErrNoReads means that the peer announced that it allows no RDMA Read of its
// memory and makes none.
var ErrNoReads = errors.New("conn: the peer does no RDMA Reads")

// configured is what the peer told through the Connection Configuration
// Protocol (RFC 5666 §6).
type configured struct {
	spoken bool
	takes  uint32 // the most of one Send, in bytes
	reads  uint32 // RDMA Reads at once
}

// set notes what the peer announces. takes is the most bytes of one Send that it
// takes: at least what every peer takes, and at most most.
func (c *configured) set(takes, reads, most uint32) {
	*c = configured{spoken: true, takes: min(max(takes, InlineMin), most), reads: reads}
}

// receive is the most bytes of one Send that the peer takes; otherwise is the value
// for a peer that announced nothing.
func (c *configured) receive(otherwise uint32) uint32 {
	if c.spoken {
		return c.takes
	}
	return otherwise
}

// unreadable says that the peer takes part in no RDMA Reads.
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
