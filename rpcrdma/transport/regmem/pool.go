package regmem

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Pool is a bounded pool of registered memory in one protection domain, which
// is the pool's own.
type Pool struct {
	pd     verbs.PD
	access verbs.Access
	limit  int64

	mu         sync.Mutex
	free       [classes][]*slab // with at least one free buffer
	registered int64            // bytes of slabs, or about to be
	fetching   int64            // bytes of buffers taken for Fetch
	taken      int64            // bytes of buffers taken
	single     int              // buffers of Register not released
	waiters    [uses][]*waiter  // oldest first
	closed     bool
	gone       bool // the protection domain is closed
}

// waiter is somebody waiting for memory. turn holds a token when it is worth
// trying.
type waiter struct{ turn chan struct{} }

// Stats are a pool's numbers, in bytes.
type Stats struct {
	Limit      int64
	Registered int64 // in slabs
	Taken      int64 // of these, in buffers not released
}

// New makes an empty pool in pd, which it closes in the end, of at most limit bytes, rounded up to what one
// largest buffer for each use takes.
func New(pd verbs.PD, access verbs.Access, limit int64) *Pool {
	return &Pool{pd: pd, access: access, limit: max(limit, 4*MaxBuffer)}
}

// Stats gives the present numbers.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Limit: p.limit, Registered: p.registered, Taken: p.taken}
}

// TryAlloc gives a buffer of at least n bytes, or nil when there is none
// without waiting, or n is over MaxBuffer. It does not overtake those who
// wait with Alloc for Fetch; for Service it does, being for those who hold
// what others wait for.
func (p *Pool) TryAlloc(n int, use Use) *Buffer {
	if n > MaxBuffer {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if use == Fetch && len(p.waiters[use]) > 0 {
		return nil
	}
	b, _ := p.take(classOf(n), use)
	return b
}

// Alloc gives a buffer of at least n bytes, in the order of asking. It waits
// until there is one, ctx ends or the pool is closed.
func (p *Pool) Alloc(ctx context.Context, n int, use Use) (*Buffer, error) {
	if n > MaxBuffer {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, MaxBuffer)
	}
	class := classOf(n)
	p.mu.Lock()
	if len(p.waiters[use]) == 0 {
		if b, err := p.take(class, use); b != nil || err != nil {
			p.mu.Unlock()
			return b, err
		}
	}
	w := &waiter{turn: make(chan struct{}, 1)}
	p.waiters[use] = append(p.waiters[use], w)
	p.mu.Unlock()
	return p.wait(ctx, w, class, use)
}

// wait waits until w is the first of its queue and there is memory.
func (p *Pool) wait(ctx context.Context, w *waiter, class int, use Use) (*Buffer, error) {
	for {
		var err error
		select {
		case <-w.turn:
		case <-ctx.Done():
			err = ctx.Err()
		}
		p.mu.Lock()
		var b *Buffer
		if err == nil {
			b, err = p.take(class, use)
		}
		if b != nil || err != nil {
			p.leave(w, use)
			p.wake()
			p.mu.Unlock()
			return b, err
		}
		p.mu.Unlock()
	}
}

// wake lets the first waiter of each queue try.
func (p *Pool) wake() {
	for _, q := range p.waiters {
		if len(q) > 0 {
			select {
			case q[0].turn <- struct{}{}:
			default:
			}
		}
	}
}

func (p *Pool) leave(w *waiter, use Use) {
	q := p.waiters[use]
	for i, x := range q {
		if x == w {
			p.waiters[use] = append(q[:i], q[i+1:]...)
			return
		}
	}
}

// take takes a buffer of a class; nil and no error when there is none now.
// p.mu is held, but is let go while memory is registered.
func (p *Pool) take(class int, use Use) (*Buffer, error) {
	size := int64(classSize(class))
	if p.closed {
		return nil, ErrClosed
	}
	if use == Fetch && p.fetching+size > p.limit/2 {
		return nil, nil
	}
	if len(p.free[class]) == 0 {
		if err := p.grow(class); err != nil || len(p.free[class]) == 0 {
			return nil, err
		}
	}
	slabs := p.free[class]
	s := slabs[len(slabs)-1]
	b := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.idle = false
	if len(s.free) == 0 {
		slabs[len(slabs)-1] = nil
		p.free[class] = slabs[:len(slabs)-1]
	}
	b.use, b.taken = use, true
	p.taken += size
	if use == Fetch {
		p.fetching += size
	}
	return b, nil
}

// grow adds a slab to a class, in place of unused ones of other classes if
// need be; nothing happens when the limit is reached. p.mu is let go
// meanwhile, so that others may have put and taken.
func (p *Pool) grow(class int) error {
	need := int64(slabSize(class))
	for p.registered+need > p.limit {
		s := p.unused()
		if s == nil {
			return nil
		}
		p.drop(s)
	}
	p.registered += need
	p.mu.Unlock()
	s, err := newSlab(p, class)
	p.mu.Lock()
	if err != nil {
		p.registered -= need
		return err
	}
	p.free[class] = append(p.free[class], s)
	return nil
}

// unused takes a slab without taken buffers out of its class, of the largest
// class first.
func (p *Pool) unused() *slab {
	for c := classes - 1; c >= 0; c-- {
		for i, s := range p.free[c] {
			if s.allFree() {
				p.free[c] = append(p.free[c][:i], p.free[c][i+1:]...)
				return s
			}
		}
	}
	return nil
}

// drop unregisters a slab that is in no class any more.
func (p *Pool) drop(s *slab) {
	p.mu.Unlock()
	err := s.mr.Close()
	p.mu.Lock()
	if err != nil {
		panic("regmem: unregister unused memory: " + err.Error())
	}
	p.registered -= int64(slabSize(s.class))
}

// put gives a buffer back.
func (p *Pool) put(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.taken {
		panic("regmem: buffer released twice")
	}
	b.taken = false
	s := b.slab
	size := int64(classSize(s.class))
	p.taken -= size
	if b.use == Fetch {
		p.fetching -= size
	}
	if len(s.free) == 0 {
		p.free[s.class] = append(p.free[s.class], s)
	}
	s.free = append(s.free, b)
	if p.closed {
		p.mustSweep()
		return
	}
	p.wake()
}

// Register registers mem for itself alone, whatever the pool holds: for those
// who can neither wait nor do without. Release unregisters it.
func (p *Pool) Register(mem []byte) (*Buffer, error) {
	mr, err := p.pd.RegMR(mem, p.access)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.single++
	p.mu.Unlock()
	return &Buffer{pool: p, mr: mr, mem: mem, taken: true}, nil
}

func (p *Pool) unregister(b *Buffer) {
	if err := b.mr.Close(); err != nil {
		panic("regmem: unregister a single buffer: " + err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.single--
	if p.closed {
		p.mustSweep()
	}
}

// Trim unregisters the slabs that were not used since the last Trim.
func (p *Pool) Trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.free {
		for i := 0; i < len(p.free[c]); i++ {
			s := p.free[c][i]
			if !s.allFree() {
				continue
			}
			if !s.idle {
				s.idle = true
				continue
			}
			p.free[c] = append(p.free[c][:i], p.free[c][i+1:]...)
			p.drop(s)
			i = -1 // the lock was let go: the list may be another
		}
	}
}

// Close unregisters everything. Buffers that are taken keep their memory, and
// the protection domain; both are freed when the last is released. Then Close
// says so with verbs.ErrBusy.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake()
	err := p.sweep()
	if p.taken > 0 || p.single > 0 {
		return fmt.Errorf("regmem: close: %d bytes and %d single buffers taken: %w", p.taken, p.single, verbs.ErrBusy)
	}
	return err
}

// mustSweep is sweep where nobody can be told; only a bug makes it fail.
func (p *Pool) mustSweep() {
	if err := p.sweep(); err != nil {
		panic("regmem: close protection domain: " + err.Error())
	}
}

// sweep unregisters what nobody has taken, and closes the protection domain
// after the last. The pool is closed; p.mu is held, but is let go meanwhile.
func (p *Pool) sweep() error {
	for s := p.unused(); s != nil; s = p.unused() {
		p.drop(s)
	}
	if p.registered > 0 || p.single > 0 || p.gone {
		return nil
	}
	p.gone = true
	return p.pd.Close()
}
