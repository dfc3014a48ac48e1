package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// ErrNoReads means that the peer announced that it neither makes nor allows RDMA Reads, or
// that none were agreed on at connect.
var ErrNoReads = errors.New("conn: the peer does no RDMA Reads")

// configured holds what the peer announced with the Connection Configuration Protocol (RFC
// 5666 §6).
type configured struct {
	spoken bool
	takes  uint32 // the largest Send that the peer takes, in bytes
	reads  uint32 // RDMA Reads that may be active at once
}

// set stores what the peer announced. takes is the largest Send that it takes, in bytes: at
// least what every peer takes, and at most most.
func (c *configured) set(takes, reads, most uint32) {
	*c = configured{spoken: true, takes: min(max(takes, settings.InlineMin), most), reads: reads}
}

// receive returns the largest Send that the peer takes, in bytes, or otherwise for a peer
// that announced nothing.
func (c *configured) receive(otherwise uint32) uint32 {
	if c.spoken {
		return c.takes
	}
	return otherwise
}

// unreadable reports whether the peer announced that it does no RDMA Reads.
func (c *configured) unreadable() bool { return c.spoken && c.reads == 0 }

// Configuration holds what the peer announced with the Connection Configuration Protocol
// (RFC 5666 §6).
type Configuration struct {
	Spoken bool
	// Takes is the largest Send that the peer takes, in bytes, within our bounds. Align is
	// the alignment that it asked for, in bytes; 0 means none. Reads is the number of RDMA
	// Reads that it lets be active at once.
	Takes, Align, Reads uint32
}
