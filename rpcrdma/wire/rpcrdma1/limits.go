package rpcrdma1

// Limits of what Decode accepts, checked before anything grows. The protocol has none. A
// peer with up to 1 MiB and 64 KiB of payload in 4 KiB segments needs 272, and one more for
// a misaligned start.
const (
	// MaxReadSegments is the largest number of entries of a read list.
	MaxReadSegments = 288
	// MaxWriteChunks is the largest number of chunks of a write list.
	MaxWriteChunks = 16
	// MaxSegments is the largest number of segments of one write chunk or reply chunk.
	MaxSegments = 288
)

// Encoded sizes in bytes.
const (
	// PrefixSize is the size of the common prefix of all header types of all versions:
	// rdma_xid, rdma_vers, rdma_credit, rdma_proc.
	PrefixSize = 16

	wordSize        = 4
	segmentSize     = 16
	readSegmentSize = wordSize + segmentSize // without the word that says whether there is a segment
)

// Offsets in the prefix, the same in all versions (RFC 8166 §4.2).
const (
	offXID     = 0
	offVersion = 4
	offCredits = 8
	offProc    = 12
)
