package regmem

import (
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// slab is one registered region, cut into buffers of one class. It owns its memory, unless
// that is the memory of a caller of Register.
type slab struct {
	pool  *Pool
	class int             // alone for a buffer with its own registration (Register, Single)
	size  int             // of each buffer, in bytes
	owned *offheap.Region // or nil
	mem   []byte
	mr    verbs.MR
	bufs  []Buffer
	free  []*Buffer
	idle  bool // all buffers were free since the last Trim
	lent  bool // of the pool's reserve
}

const alone = -1

// newSlab allocates and registers a slab.
func newSlab(pool *Pool, class int) (*slab, error) {
	region, err := offheap.Alloc(slabSize(class))
	if err != nil {
		return nil, err
	}
	mr, err := pool.pd.RegMR(region.Bytes()[:slabSize(class)], pool.access)
	if err != nil {
		region.Free()
		return nil, err
	}
	mem, size := mr.Bytes(), classSize(class)
	n := len(mem) / size
	s := &slab{pool: pool, class: class, size: size, owned: region, mem: mem, mr: mr, bufs: make([]Buffer, n), free: make([]*Buffer, n)}
	for i := range s.bufs {
		s.bufs[i] = Buffer{slab: s, off: uint32(i * size)}
		s.free[n-1-i] = &s.bufs[i]
	}
	return s, nil
}

// close unregisters the slab and then frees its memory. No buffer of it is in use, and no
// provider accesses unregistered memory. After an error it keeps both.
func (s *slab) close() error {
	if err := s.mr.Close(); err != nil {
		return err
	}
	if s.owned != nil {
		s.owned.Free()
	}
	return nil
}

func (s *slab) allFree() bool { return len(s.free) == len(s.bufs) }

// Buffer is a buffer of a pool. It implements oncrpc.Buffer. It is small, because each
// receive of an idle connection has one.
type Buffer struct {
	slab  *slab
	off   uint32 // in the slab
	use   Use
	taken bool

	account *fair.Share // the share that it is charged to, or nil
	charge  int64
}

// Use returns the use that the buffer was allocated for.
func (b *Buffer) Use() Use { return b.use }

// Charge makes Release also release n bytes of s.
func (b *Buffer) Charge(s *fair.Share, n int64) { b.account, b.charge = s, n }

// Bytes returns the whole buffer.
func (b *Buffer) Bytes() []byte {
	end := int(b.off) + b.slab.size
	return b.slab.mem[b.off:end:end]
}

// MR returns the memory region that contains the buffer.
func (b *Buffer) MR() verbs.MR { return b.slab.mr }

// Offset returns the offset of the buffer in its region.
func (b *Buffer) Offset() int { return int(b.off) }

// SGE returns a scatter/gather entry for n bytes of the buffer from off.
func (b *Buffer) SGE(off, n int) verbs.SGE {
	return verbs.SGE{MR: b.slab.mr, Offset: int(b.off) + off, Length: n}
}

// Of reports whether the buffer belongs to p.
func (b *Buffer) Of(p *Pool) bool { return b.slab.pool == p }

// Pooled reports whether the buffer is part of a slab, and not registered on its own.
func (b *Buffer) Pooled() bool { return b.slab.class != alone }

// Release gives the buffer back. Releasing it twice panics.
func (b *Buffer) Release() {
	account, charge := b.account, b.charge
	b.account = nil // after put, another goroutine may have the buffer
	if b.Pooled() {
		b.slab.pool.put(b)
	} else {
		b.slab.pool.unregister(b)
	}
	if account != nil {
		account.Release(charge)
	}
}
