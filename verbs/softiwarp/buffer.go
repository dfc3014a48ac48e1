package softiwarp

import (
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

// bufferSize is the size of the buffers for reading from and writing to
// sockets, in bytes: large enough to make system calls cheap, small enough
// to stay in a core's cache.
const bufferSize = 256 << 10

// keptBuffers is how many buffers of a size are kept for their next use.
const keptBuffers = 8

// buffer is memory for bytes of a stream. A peer decides how long a buffer is in use,
// by sending part of an FPDU or by not reading. Buffers are therefore outside the Go
// heap, where the process's memory limit counts them.
type buffer struct {
	mem    []byte
	class  *bufferClass
	region *offheap.Region // nil when mem is of the Go heap
}

// bufferClass has the buffers of one size.
type bufferClass struct {
	size int
	kept [keptBuffers]atomic.Pointer[buffer]
}

// buffers has the buffers of a device, by size.
type buffers [3]bufferClass

func (s *buffers) init() {
	s[0].size, s[1].size, s[2].size = 4<<10, mpa.MaxFPDU, bufferSize
}

// get gives a buffer of n bytes or more, bufferSize at most.
func (s *buffers) get(n int) *buffer {
	c := &s[0]
	for i := 1; c.size < n; i++ {
		c = &s[i]
	}
	for i := range c.kept {
		if c.kept[i].Load() == nil {
			continue
		}
		if b := c.kept[i].Swap(nil); b != nil {
			return b
		}
	}
	// A connection can't continue without a buffer, and needs two at most: one to
	// read into and one to write from. Users of memory that can wait leave room.
	if region, err := offheap.Force(c.size); err == nil {
		return &buffer{mem: region.Bytes()[:c.size], class: c, region: region}
	}
	return &buffer{mem: make([]byte, c.size), class: c}
}

// put returns the buffer to its class.
func (b *buffer) put() {
	for i := range b.class.kept {
		if kept := &b.class.kept[i]; kept.Load() == nil && kept.CompareAndSwap(nil, b) {
			return
		}
	}
	b.free()
}

func (b *buffer) free() {
	if b.region != nil {
		b.region.Free()
	}
}

// close frees the kept buffers. None is in use.
func (s *buffers) close() {
	for c := range s {
		for i := range s[c].kept {
			if b := s[c].kept[i].Swap(nil); b != nil {
				b.free()
			}
		}
	}
}
