package rpctcp

import (
	"context"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/offheap"
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
	idle    idleBuffers
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

	region *offheap.Region
	data   []byte // of region
	out    atomic.Bool
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
	b := p.idle.take(class)
	if b == nil {
		region, err := p.idle.alloc(ctx, classSize(class))
		if err != nil {
			p.budget.Release(int64(classSize(class)))
			return nil, err
		}
		b = &buffer{pool: p, class: class, region: region, data: region.Bytes()[:classSize(class)]}
	}
	b.out.Store(true)
	return b, nil
}

// close frees what is idle. Buffers that are out are freed when they are released.
func (p *pool) close() { p.idle.close() }

// Bytes implements oncrpc.Buffer.
func (b *buffer) Bytes() []byte { return b.data }

// Release implements oncrpc.Buffer. Releasing twice would give the same memory
// to two calls, so it panics.
func (b *buffer) Release() {
	if !b.out.CompareAndSwap(true, false) {
		panic("rpctcp: buffer released twice")
	}
	b.pool.idle.keep(b)
	b.pool.budget.Release(int64(classSize(b.class)))
}
