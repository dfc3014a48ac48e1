package rpcrdma1

// Limits on what Decode accepts, checked before anything grows. The protocol
// has none; a peer that stays within 1 MiB and 64 KiB of payload in segments
// of a 4 KiB page needs 272, and one more for a misaligned start.
const (
	// MaxReadSegments is the most entries of a read list.
	MaxReadSegments = 288
	// MaxWriteChunks is the most chunks of a write list.
	MaxWriteChunks = 16
	// MaxSegments is the most segments of one write chunk or reply chunk.
	MaxSegments = 288
)

// Encoded sizes in bytes.
const (
	// PrefixSize is the size of what all header types of all versions start
	// with: rdma_xid, rdma_vers, rdma_credit, rdma_proc.
	PrefixSize = 16

	wordSize        = 4
	segmentSize     = 16
	readSegmentSize = wordSize + segmentSize // without the word that says that it is there
)

// Offsets in the prefix, the same in all versions (RFC 8166 §4.2).
const (
	offXID     = 0
	offVersion = 4
	offCredits = 8
	offProc    = 12
)
