// Package chunk plans and processes chunks (RFC 5666 §3.4, RFC 8166 §3.4). It turns a read
// list into RDMA Reads, finds the positions of the data in the XDR stream, and fills the
// segments of a write or reply chunk with the pieces of a message.
//
// It touches no memory and uses no verbs. It computes with lengths, positions and segments.
//
// The caller must:
//
//   - set Limits that bound what a peer can make it allocate;
//   - treat every error as the peer's fault (ERR_CHUNK).
package chunk

import "errors"

// Errors of this package. Each means that the peer violated the protocol or a limit.
var (
	ErrPosition     = errors.New("chunk: position outside of the XDR stream or not a multiple of 4")
	ErrOverlap      = errors.New("chunk: read chunks overlap")
	ErrChunkCount   = errors.New("chunk: more read chunks than allowed")
	ErrSegmentCount = errors.New("chunk: more read segments than allowed")
	ErrTooLong      = errors.New("chunk: longer than allowed")
	ErrAddressWrap  = errors.New("chunk: segment wraps around the address space")
	ErrReturned     = errors.New("chunk: returned chunk is not the one offered")
)
