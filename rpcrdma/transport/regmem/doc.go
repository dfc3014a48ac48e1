// Package regmem pools registered memory: page-aligned buffers in size
// classes, cut from slabs that are registered once and used again. All memory
// together is bounded; who wants more waits or is refused.
//
// Slabs are memory outside the Go heap (verbs/offheap). Call Trim every few seconds:
// it returns the slabs that were not used since the previous Trim to the operating
// system. So a slab survives a pause of traffic, and calls rarely wait for memory to
// be registered.
//
// A caller's duties:
//
//   - Release every buffer once, after the last work request that names it has
//     completed or its queue pair is closed;
//   - hold no buffer for Service while waiting for one for Fetch;
//   - Close the pool, with which its protection domain goes.
//
// Shares. Receives are held as long as connections live, what was fetched
// until its service is done, and a service may wait for memory meanwhile. So
// that none of them can starve the next, receives get at most 3/8 of the
// limit (half of it, those beyond a connection's first), fetches 2/8, and all slabs of small classes, which may be fragmented,
// together with large receives 4/8: at least 2/8 are always there for the large
// buffers of services. A small buffer that its share does not allow is taken
// from the smallest large class.
//
// Lock order: Pool.mu is a leaf but for the provider's own locks.
package regmem

import "errors"

var (
	// ErrTooLarge means that more than MaxBuffer bytes were asked for.
	ErrTooLarge = errors.New("regmem: buffer too large")
	// ErrClosed means that the pool is closed.
	ErrClosed = errors.New("regmem: pool closed")
)

// Use says what a buffer is for; it decides which share of the pool it may
// take.
type Use uint8

const (
	// Service is for what is being sent: headers, replies.
	Service Use = iota
	// Fetch is for what a peer has us read.
	Fetch
	// Receive is for the first receives of a connection.
	Receive
	// Extra is for the receives beyond those. They leave newcomers half of the
	// memory that receives may take.
	Extra

	uses = 4
)

// The shares, in eighths of the limit.
const (
	receiveShare = 3
	fetchShare   = 2
	baseShare    = 4 // slabs of small classes and large receives
	comingShare  = 2 // of these, what large buffers of services leave free
)

const (
	pageSize = 4096
	// MaxBuffer is the most bytes of one buffer: 1 MiB of payload, 64 KiB of
	// what goes with it, and a page for alignment.
	MaxBuffer = 1<<20 + 64<<10 + pageSize

	minClass  = 10      // log2 of the smallest class
	maxClass  = 20      // log2 of the largest but one
	slabBytes = 1 << 16 // what small classes are cut from; larger ones stand alone
)

// firstLarge is the smallest class whose buffers stand alone.
const firstLarge = 16 - minClass

// classes are the powers of two from 1 KiB to 1 MiB, and MaxBuffer.
const classes = maxClass - minClass + 2

// classOf gives the smallest class of at least n bytes, which is at most
// MaxBuffer.
func classOf(n int) int {
	for c := range classes - 1 {
		if n <= 1<<(minClass+c) {
			return c
		}
	}
	return classes - 1
}

func classSize(c int) int {
	if c == classes-1 {
		return MaxBuffer
	}
	return 1 << (minClass + c)
}

// slabSize is the number of bytes registered at once for class c.
func slabSize(c int) int { return max(classSize(c), slabBytes) / classSize(c) * classSize(c) }
