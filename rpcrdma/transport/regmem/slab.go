package regmem

import (
	"reflect"

	"github.com/rdmad/rdmad/verbs"
)

// slab is one registered region, cut into buffers of one class.
type slab struct {
	class int
	mr    verbs.MR
	bufs  []Buffer
	free  []*Buffer
	idle  bool // all free since the last Trim
}

// newSlab allocates and registers a slab.
func newSlab(pool *Pool, class int) (*slab, error) {
	mem := aligned(slabSize(class))
	mr, err := pool.pd.RegMR(mem, pool.access)
	if err != nil {
		return nil, err
	}
	size := classSize(class)
	n := len(mem) / size
	s := &slab{class: class, mr: mr, bufs: make([]Buffer, n), free: make([]*Buffer, n)}
	for i := range s.bufs {
		off := i * size
		s.bufs[i] = Buffer{pool: pool, slab: s, mr: mr, off: off, mem: mem[off : off+size : off+size]}
		s.free[n-1-i] = &s.bufs[i]
	}
	return s, nil
}

func (s *slab) allFree() bool { return len(s.free) == len(s.bufs) }

// aligned allocates n bytes that start on a page.
func aligned(n int) []byte {
	b := make([]byte, n+pageSize)
	skip := -int(reflect.ValueOf(b).Pointer()) & (pageSize - 1)
	return b[skip : skip+n : skip+n]
}

// Buffer is a buffer of a pool. It implements oncrpc.Buffer.
type Buffer struct {
	pool  *Pool
	slab  *slab // nil: registered for itself alone (Register)
	mr    verbs.MR
	off   int
	mem   []byte
	use   Use
	taken bool
}

// Bytes is the whole buffer.
func (b *Buffer) Bytes() []byte { return b.mem }

// MR is the region that the buffer lies in.
func (b *Buffer) MR() verbs.MR { return b.mr }

// Offset is where in its region the buffer begins.
func (b *Buffer) Offset() int { return b.off }

// SGE names n bytes from off of the buffer.
func (b *Buffer) SGE(off, n int) verbs.SGE {
	return verbs.SGE{MR: b.mr, Offset: b.off + off, Length: n}
}

// Of says whether the buffer comes from p.
func (b *Buffer) Of(p *Pool) bool { return b.pool == p }

// Pooled says whether the buffer is cut from a slab of the pool, rather than
// registered for itself alone.
func (b *Buffer) Pooled() bool { return b.slab != nil }

// Release gives the buffer back. Doing so twice is a bug.
func (b *Buffer) Release() {
	if b.slab == nil {
		b.pool.unregister(b)
		return
	}
	b.pool.put(b)
}
