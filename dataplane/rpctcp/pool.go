package rpctcp

import (
	"context"
	"fmt"
	"math/bits"
	"os"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Sizes of the pool's buffers: powers of two, from 4 KiB on.
const (
	minClassBits = 12
	classes      = 32 - minClassBits

	// maxIdle bounds the bytes that a pool keeps although nobody uses them.
	maxIdle = 16 << 20
)

// pool is plain memory in size classes. It implements oncrpc.Memory. At most
// limit bytes are out at one time; who wants more waits.
type pool struct {
	budget  *budget.Budget
	maximum int // largest Alloc, in bytes

	mu   sync.Mutex
	idle [classes][]*buffer
	kept int // bytes idle
}

// newPool gives buffers of up to maximum bytes. limit is raised to the size of
// the largest of them.
func newPool(limit, maximum int) *pool {
	return &pool{
		budget:  budget.New(int64(max(limit, classSize(classOf(maximum))))),
		maximum: maximum,
	}
}

// classOf is the smallest class whose buffers hold n bytes.
func classOf(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), minClassBits) - minClassBits
}

func classSize(class int) int { return 1 << (class + minClassBits) }

// buffer is memory of a pool.
type buffer struct {
	pool  *pool
	class int
	data  []byte
	out   atomic.Bool
}

// Alloc implements oncrpc.Memory. The buffer's content is what it was last
// used for.
func (p *pool) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	b, err := p.get(ctx, n)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (p *pool) get(ctx context.Context, n int) (*buffer, error) {
	if n < 0 || n > p.maximum {
		return nil, fmt.Errorf("rpctcp: buffer of %d bytes asked for, at most %d are given", n, p.maximum)
	}
	class := classOf(n)
	if err := p.budget.Acquire(ctx, int64(classSize(class))); err != nil {
		return nil, err
	}
	b := p.takeIdle(class)
	if b == nil {
		b = &buffer{pool: p, class: class, data: pageAligned(classSize(class))}
	}
	b.out.Store(true)
	return b, nil
}

func (p *pool) takeIdle(class int) *buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[class]
	if len(idle) == 0 {
		return nil
	}
	b := idle[len(idle)-1]
	idle[len(idle)-1] = nil
	p.idle[class] = idle[:len(idle)-1]
	p.kept -= classSize(class)
	return b
}

// Bytes implements oncrpc.Buffer.
func (b *buffer) Bytes() []byte { return b.data }

// Release implements oncrpc.Buffer. Releasing twice would give the same memory
// to two calls, so it panics.
func (b *buffer) Release() {
	if !b.out.CompareAndSwap(true, false) {
		panic("rpctcp: buffer released twice")
	}
	p, size := b.pool, classSize(b.class)
	p.mu.Lock()
	if p.kept+size <= maxIdle {
		p.kept += size
		p.idle[b.class] = append(p.idle[b.class], b)
	}
	p.mu.Unlock()
	p.budget.Release(int64(size))
}

// pageAligned gives n bytes that start on a page when they are a page or more.
// The allocator does so by itself, but does not promise it.
func pageAligned(n int) []byte {
	page := os.Getpagesize()
	b := make([]byte, n)
	if n < page || misalignment(b, page) == 0 {
		return b
	}
	b = make([]byte, n+page)
	off := page - misalignment(b, page)
	return b[off : off+n : off+n]
}

// misalignment is how far b starts after a page.
func misalignment(b []byte, page int) int {
	return int(reflect.ValueOf(b).Pointer() % uintptr(page))
}
