package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// ErrNoReads means that the peer announced that it neither makes nor allows RDMA Reads, or
// that none were agreed on at connect.
var ErrNoReads = errors.New("conn: the peer does no RDMA Reads")

// Configuration holds what the peer announced with the Connection Configuration Protocol
// (RFC 5666 §6).
type Configuration struct {
	Spoken bool
	// Takes is the largest Send that the peer takes, in bytes, within our bounds. Align is
	// the alignment that it asked for, in bytes; 0 means none. Reads is the number of RDMA
	// Reads that it lets be active at once.
	Takes, Align, Reads uint32
}

// set stores what the peer announced. takes is the largest Send that it takes, in bytes: at
// least what every peer takes, and at most most.
func (c *Configuration) set(takes, reads, most uint32) {
	*c = Configuration{Spoken: true, Takes: min(max(takes, settings.InlineMin), most), Reads: reads}
}

// receive returns the largest Send that the peer takes, in bytes, or otherwise for a peer
// that announced nothing.
func (c *Configuration) receive(otherwise uint32) uint32 {
	if c.Spoken {
		return c.Takes
	}
	return otherwise
}

// unreadable reports whether the peer announced that it does no RDMA Reads.
func (c *Configuration) unreadable() bool { return c.Spoken && c.Reads == 0 }
