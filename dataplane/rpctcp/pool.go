package rpctcp

import (
	"context"
	"fmt"
	"math/bits"
	"net/netip"
	"sync/atomic"

	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/peers"
)

// Sizes of the pool's buffers: powers of two, at least 4 KiB.
const (
	minClassBits = 12
	classes      = 32 - minClassBits

	// maxIdle limits the unused bytes that a pool keeps.
	maxIdle = 16 << 20

	// smallRequest is the size of the one request of each connection that never waits, in
	// bytes.
	smallRequest = 64 << 10
)

// pool allocates buffers in size classes. At most limit bytes are in use at one time.
// Beyond that, connections wait. Each connection has a share of the limit, and one small
// buffer for which it never waits.
type pool struct {
	fair    *fair.Pool
	maximum int // largest Alloc, in bytes
	idle    idleBuffers
}

// newPool makes a pool of buffers of up to maximum bytes, which is also a connection's
// share. limit is raised to the size of the largest buffer.
func newPool(limit, maximum int) *pool {
	p := &pool{maximum: maximum}
	largest := p.largest()
	p.idle.init(int(largest))
	p.fair = fair.NewPool(max(int64(limit), largest), largest)
	return p
}

// setLimit changes the limit. Buffers in use beyond it are not taken back.
func (p *pool) setLimit(limit int) { p.fair.SetLimit(max(int64(limit), p.largest())) }

// largest returns the size of the largest buffer.
func (p *pool) largest() int64 { return int64(p.size(classOf(p.maximum))) }

// classOf returns the smallest class whose buffers hold n bytes.
func classOf(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), minClassBits) - minClassBits
}

// size returns the size of a class's buffers: a power of two, but no more than the
// largest Alloc in whole pages.
func (p *pool) size(class int) int {
	page := 1 << minClassBits
	return min(1<<(class+minClassBits), (max(p.maximum, 1)+page-1)/page*page)
}

// allowance is a connection's share of a pool's bytes. One small request at a time never
// waits, so a connection with one call in flight is served regardless of what others hold.
type allowance struct {
	share *fair.Share
	small atomic.Bool // a small request is in use
}

// take takes n bytes. Pass small back to give.
func (a *allowance) take(ctx context.Context, n int64) (small bool, err error) {
	if n <= smallRequest && a.small.CompareAndSwap(false, true) {
		a.share.Force(n)
		return true, nil
	}
	return false, a.share.Acquire(ctx, n)
}

// give gives n bytes back.
func (a *allowance) give(n int64, small bool) {
	if small {
		a.small.Store(false)
	}
	if n > 0 {
		a.share.Release(n)
	}
}

// account allocates a connection's buffers from a pool. It implements oncrpc.Memory.
type account struct {
	pool *pool
	allowance
	mapping atomic.Int32 // buffers for which memory of the process is being mapped, or waited for
}

func (p *pool) join(peer netip.Addr) *account {
	return &account{pool: p, allowance: allowance{share: p.fair.Join(peers.Of(peer), 1)}}
}

// buffer is memory of a pool.
type buffer struct {
	pool  *pool
	class int

	region *offheap.Region
	data   []byte // of region

	account *account // of the connection that uses it
	charged int64    // to the account's share
	small   bool     // it is the account's small buffer
	out     atomic.Bool
}

// Alloc implements oncrpc.Memory. The buffer keeps the content of its last use.
func (a *account) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	b, err := a.get(ctx, n)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (a *account) get(ctx context.Context, n int) (*buffer, error) {
	p := a.pool
	if n < 0 || n > p.maximum {
		return nil, fmt.Errorf("rpctcp: buffer of %d bytes asked for, at most %d are given", n, p.maximum)
	}
	class := classOf(n)
	size := int64(p.size(class))
	small, err := a.take(ctx, size)
	if err != nil {
		return nil, err
	}
	b := p.idle.take(class)
	if b == nil {
		a.mapping.Add(1)
		region, err := p.idle.alloc(ctx, int(size))
		a.mapping.Add(-1)
		if err != nil {
			a.give(size, small)
			return nil, err
		}
		b = &buffer{pool: p, class: class, region: region, data: region.Bytes()[:size]}
	}
	b.account, b.charged, b.small = a, size, small
	b.out.Store(true)
	return b, nil
}

// close frees idle buffers. Buffers in use are freed when they are released.
func (p *pool) close() { p.idle.close() }

// Bytes implements oncrpc.Buffer.
func (b *buffer) Bytes() []byte { return b.data }

// Release implements oncrpc.Buffer. It panics if called twice, because two calls could then
// get the same memory.
func (b *buffer) Release() {
	if !b.out.CompareAndSwap(true, false) {
		panic("rpctcp: buffer released twice")
	}
	b.discharge()
	b.account = nil
	b.pool.idle.keep(b)
}

// discharge returns the buffer's charge before the buffer is released.
func (b *buffer) discharge() {
	b.account.give(b.charged, b.small)
	b.charged, b.small = 0, false
}
