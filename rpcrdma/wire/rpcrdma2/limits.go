package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"

// Limits on what is decoded, checked before anything grows. The protocol has
// none. Those of the chunk lists are version 1's.
const (
	// MaxSegments is the most segments of one chunk.
	MaxSegments = rpcrdma1.MaxSegments
	// MaxInfo is the most bytes of an Optional header's body.
	MaxInfo = 64 << 10
	// MaxCharacteristics is the most elements of a set of characteristics.
	MaxCharacteristics = 64
	// MaxSubsetWords is the most words of a subset: 32 elements each.
	MaxSubsetWords = MaxCharacteristics / 32
	// MaxGroups is the most groups of segments of a buffer structure.
	MaxGroups = 16
	// MaxItems is the most items placed apart in one transmission group, and
	// the most that one range directs.
	MaxItems = 16
	// MaxRanges is the most ranges with directions for the reply.
	MaxRanges = 16
	// MaxTargets is the most buffer segments that one item is spread over.
	MaxTargets = 288
)

// Encoded sizes in bytes.
const (
	wordSize    = 4
	segmentSize = 16
	// The least of elements of lists.
	minCharacteristic = 2 * wordSize
	groupSize         = 4 * wordSize
	minItem           = 3 * wordSize
	minResultItem     = 2 * wordSize
	minResultSet      = 3 * wordSize
)
