// Package regmem pools registered memory: page-aligned buffers in size classes. They are
// cut from slabs that are registered once and reused. The total memory has a limit. A
// request beyond it waits or is refused.
//
// Slabs are memory outside the Go heap (verbs/offheap). Call Trim every few seconds: it
// returns the slabs that were not used since the previous Trim to the operating system. So
// a slab survives a pause of traffic, and calls rarely wait for memory to be registered.
//
// The caller must:
//
//   - Release every buffer once, after the last work request that uses it has completed or
//     its queue pair is closed;
//   - hold no buffer for Service while waiting for one for Fetch;
//   - Close the pool, which also closes its protection domain.
//
// Shares. Receives are held as long as their connections exist, fetched data until its
// service is done, and a service may wait for memory meanwhile. Shares make sure that none
// of these uses can starve another. Receives get at most 3/8 of the limit (receives beyond
// a connection's first get at most half of that). Fetches get 2/8. Slabs of small classes,
// which may be fragmented, and large receives together get 4/8. So at least 2/8 are always
// available for large buffers of services. If a share does not allow a small buffer, the
// buffer comes from the smallest large class.
//
// The shares are of the pool's limit. The process may have less, because others have it. Then requests that wait
// go on one after the other, with memory that the process keeps for the pool (Reserve).
//
// Lock order: the pool's lock comes before the provider's locks, and after all others.
package regmem

import "errors"

var (
	// ErrTooLarge means that more than MaxBuffer bytes were requested.
	ErrTooLarge = errors.New("regmem: buffer too large")
	// ErrClosed means that the pool is closed.
	ErrClosed = errors.New("regmem: pool closed")
)

// Use is the purpose of a buffer. It decides from which share of the pool the buffer comes.
type Use uint8

const (
	// Service is for data to send: headers and replies.
	Service Use = iota
	// Fetch is for data that we read from a peer.
	Fetch
	// Receive is for the first receives of a connection.
	Receive
	// Extra is for further receives. They take at most half of the memory for receives.
	Extra
	// Divided is for further receives of a connection whose number of receives is decided
	// together with those of others.
	Divided

	uses = 5
)

// newcomersPart is the part of the memory for receives that Extra and Divided leave free. A
// connection that ends makes room for a new one, and not for more receives of others.
const newcomersPart = 16

// The shares, in eighths of the limit.
const (
	receiveShare = 3
	fetchShare   = 2
	baseShare    = 4 // slabs of small classes and large receives
	comingShare  = 2 // the part of baseShare that large buffers of services leave free
)

const (
	pageSize = 4096
	// MaxBuffer is the size of the largest buffer, in bytes: 1 MiB of payload, 64 KiB for
	// the rest of the message, and a page for alignment.
	MaxBuffer = 1<<20 + 64<<10 + pageSize

	minClass  = 10      // log2 of the smallest class
	maxClass  = 20      // log2 of the second largest class
	slabBytes = 1 << 16 // small classes are cut from slabs of this size; a larger buffer is a slab
)

// firstLarge is the smallest class whose buffers are slabs of their own.
const firstLarge = 16 - minClass

// classes are the powers of two from 1 KiB to 1 MiB, and MaxBuffer.
const classes = maxClass - minClass + 2

// classOf returns the smallest class of at least n bytes. n is at most MaxBuffer.
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

// slabSize returns how many bytes are registered at once for class c.
func slabSize(c int) int { return max(classSize(c), slabBytes) / classSize(c) * classSize(c) }
