package softiwarp

import (
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

// bufferSize is the size of the buffers for reading from sockets, in bytes. It is large
// enough for few system calls and small enough for a core's cache.
const bufferSize = 256 << 10

// batchSize is the size of the batches that are written to sockets, in bytes: two full TCP
// segments over loopback, of 65483 bytes each, and the short rest of a message. The receiver
// reads them while the next two are written, and they stay in the caches. Three at once cost
// about a tenth more processor time (docs/adr/0030).
const batchSize = 2*65483 + 4<<10

// keptBuffers is the number of unused buffers of one size that are kept for reuse.
const keptBuffers = 8

// heldBuffers is the number of connections of a device that may keep a large buffer while they
// wait within an FPDU.
const heldBuffers = keptBuffers / 2

// hold reports whether one more connection may keep a large buffer while it waits.
func (d *device) hold() bool {
	if d.held.Add(1) <= heldBuffers {
		return true
	}
	d.held.Add(-1)
	return false
}

// buffer is memory for bytes of a TCP stream. A peer decides how long a buffer is in
// use, by sending only part of an FPDU or by not reading. Buffers are therefore outside
// the Go heap, in memory that counts toward the process's memory limit.
type buffer struct {
	mem    []byte
	class  *bufferClass
	region *offheap.Region   // nil when mem is on the Go heap
	vector [maxVector][]byte // of the batch that is being made in it
}

// bufferClass holds the unused buffers of one size.
type bufferClass struct {
	size int
	kept [keptBuffers]atomic.Pointer[buffer]
}

// buffers holds the unused buffers of a device, by size.
type buffers [4]bufferClass

func (s *buffers) init() {
	s[0].size, s[1].size, s[2].size, s[3].size = 4<<10, mpa.MaxFPDU, batchSize, bufferSize
}

// get returns a buffer of at least n bytes. n is at most bufferSize.
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
	// A connection can't continue without a buffer, so the memory limit does not apply.
	// A connection needs two buffers at most: one to read into and one to write from.
	// Other users of memory, which can wait, leave room for them.
	if region, err := offheap.Force(c.size); err == nil {
		return &buffer{mem: region.Bytes()[:c.size], class: c, region: region}
	}
	return &buffer{mem: make([]byte, c.size), class: c}
}

// put returns the buffer to its class, or frees it when the class has enough.
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

// close frees the kept buffers. No buffer may be in use.
func (s *buffers) close() {
	for c := range s {
		for i := range s[c].kept {
			if b := s[c].kept[i].Swap(nil); b != nil {
				b.free()
			}
		}
	}
}
