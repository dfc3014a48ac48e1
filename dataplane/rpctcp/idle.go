package rpctcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rdmad/rdmad/verbs/offheap"
)

// idleTime is the shortest time for which an unused buffer is kept. The longest is twice
// that.
const idleTime = 5 * time.Second

// idleBuffers keeps the unused buffers of a pool. Their memory is outside the Go heap.
// Buffers that stay unused are returned to the operating system, and all of them while others wait
// for memory of the process.
type idleBuffers struct {
	mu      sync.Mutex
	classes [classes]idleClass
	kept    int // bytes
	closed  bool
	trimmer *time.Timer // nil while there are no buffers
	stop    func()      // ends the calls of drain by OnShortage
	// small and large are kept for the pool: others may have all other memory until its calls are answered. One
	// buffer of up to smallRequest bytes is always possible, and one of any size beside it.
	small, large *offheap.Part
}

func (i *idleBuffers) init(largest int) {
	i.stop = offheap.OnShortage(i.drain)
	i.small, i.large = offheap.Keep(smallRequest), offheap.Keep(largest)
}

// idleClass is a stack: the buffer used last is used next.
type idleClass struct {
	buffers []*buffer
	least   int // the smallest number of buffers since the last trim: these were not used
}

// take returns a buffer of a class, or nil.
func (i *idleBuffers) take(class int) *buffer {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := &i.classes[class]
	last := len(c.buffers) - 1
	if last < 0 {
		return nil
	}
	b := c.buffers[last]
	c.buffers[last] = nil
	c.buffers = c.buffers[:last]
	c.least = min(c.least, last)
	i.kept -= len(b.data)
	return b
}

// keep takes back a buffer, unless others wait for memory of the process.
func (i *idleBuffers) keep(b *buffer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed || i.kept+len(b.data) > maxIdle || offheap.Waiting() > 0 {
		b.region.Free()
		return
	}
	i.kept += len(b.data)
	c := &i.classes[b.class]
	c.buffers = append(c.buffers, b)
	if i.trimmer == nil {
		i.trimmer = time.AfterFunc(idleTime, i.trim)
	}
}

// trim frees the buffers that were not used since the last trim.
func (i *idleBuffers) trim() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for class := range i.classes {
		c := &i.classes[class]
		unused := c.least
		i.kept -= unused * i.freeOldest(c, unused)
		c.least = len(c.buffers)
	}
	if i.trimmer = nil; i.kept > 0 && !i.closed {
		i.trimmer = time.AfterFunc(idleTime, i.trim)
	}
}

// freeOldest frees the n buffers at the bottom of the stack. It returns the size of
// one.
func (i *idleBuffers) freeOldest(c *idleClass, n int) (size int) {
	for _, b := range c.buffers[:n] {
		size = len(b.data)
		b.region.Free()
	}
	c.buffers = append(c.buffers[:0], c.buffers[n:]...)
	clear(c.buffers[len(c.buffers):cap(c.buffers)])
	return size
}

// drain frees all buffers.
func (i *idleBuffers) drain() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for class := range i.classes {
		c := &i.classes[class]
		i.freeOldest(c, len(c.buffers))
		c.least = 0
	}
	i.kept = 0
}

// close frees idle buffers, now and later.
func (i *idleBuffers) close() {
	i.stop()
	i.mu.Lock()
	i.closed = true
	if i.trimmer != nil {
		i.trimmer.Stop()
	}
	i.mu.Unlock()
	i.drain()
	i.small.Close()
	i.large.Close()
}

// alloc maps n bytes. While the process is at its memory limit, it waits.
func (i *idleBuffers) alloc(ctx context.Context, n int) (*offheap.Region, error) {
	r, err := i.allocNow(n)
	for errors.Is(err, offheap.ErrLimit) {
		freed := make(chan struct{})
		forget := offheap.Notify(func() { close(freed) }) // unused buffers are freed now, here and elsewhere
		if r, err = i.allocNow(n); !errors.Is(err, offheap.ErrLimit) {
			forget()
			break
		}
		select {
		case <-freed:
		case <-ctx.Done():
			forget()
			return nil, context.Cause(ctx)
		}
	}
	return r, err
}

// allocNow maps n bytes: of the common memory, or else of what is kept for the pool.
func (i *idleBuffers) allocNow(n int) (*offheap.Region, error) {
	r, err := offheap.Alloc(n)
	if !errors.Is(err, offheap.ErrLimit) {
		return r, err
	}
	if n <= smallRequest {
		return i.small.Alloc(n)
	}
	return i.large.Alloc(n)
}
