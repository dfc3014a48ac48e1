package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"

// Limits of what is decoded, checked before anything grows. The protocol has none. Chunk
// lists have the limits of version 1.
const (
	// MaxSegments is the largest number of segments of one chunk.
	MaxSegments = rpcrdma1.MaxSegments
	// MaxInfo is the largest body of an Optional header, in bytes.
	MaxInfo = 64 << 10
	// MaxCharacteristics is the largest number of elements of a set of characteristics.
	MaxCharacteristics = 64
	// MaxSubsetWords is the largest number of words of a subset, with 32 elements each.
	MaxSubsetWords = MaxCharacteristics / 32
	// MaxGroups is the largest number of groups of segments of a buffer structure.
	MaxGroups = 16
	// MaxItems is the largest number of separate items in one transmission group, and of
	// directions in one range.
	MaxItems = 16
	// MaxRanges is the largest number of ranges with directions for the reply.
	MaxRanges = 16
	// MaxTargets is the largest number of buffer segments of one item.
	MaxTargets = 288
)

// Encoded sizes in bytes.
const (
	wordSize    = 4
	segmentSize = 16
	// The smallest sizes of list elements.
	minCharacteristic = 2 * wordSize
	groupSize         = 4 * wordSize
	minItem           = 3 * wordSize
	minResultItem     = 2 * wordSize
	minResultSet      = 3 * wordSize
)
