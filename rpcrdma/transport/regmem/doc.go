// Package regmem pools registered memory: page-aligned buffers in size
// classes, cut from slabs that are registered once and used again. All memory
// together is bounded; who wants more waits or is refused.
//
// A caller's duties:
//
//   - Release every buffer once, after the last work request that names it has
//     completed or its queue pair is closed;
//   - hold no buffer for Service while it waits for one for Fetch: memory for
//     what peers send may fill only a part of the pool, so that those who
//     already hold such memory always find some to go on with;
//   - Close the pool, with which its protection domain goes.
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
	// Service may take all: send buffers, receives, replies being made.
	Service Use = iota
	// Fetch may take half: memory for what a peer has us read.
	Fetch

	uses = 2
)

const (
	pageSize = 4096
	// MaxBuffer is the most bytes of one buffer: 1 MiB of payload, 64 KiB of
	// what goes with it, and a page for alignment.
	MaxBuffer = 1<<20 + 64<<10 + pageSize

	minClass  = 10      // log2 of the smallest class
	maxClass  = 20      // log2 of the largest but one
	slabBytes = 1 << 16 // what small classes are cut from
)

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
