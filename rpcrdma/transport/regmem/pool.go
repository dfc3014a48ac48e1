package regmem

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// Pool is a bounded pool of registered memory in one protection domain, which it owns.
type Pool struct {
	pd     verbs.PD
	access verbs.Access
	limit  int64

	mu         sync.Mutex
	free       [classes][]*slab // with at least one free buffer
	registered int64            // bytes of slabs, registered or about to be
	base       int64            // bytes of slabs of small classes and of large receives
	used       [uses]int64      // bytes of buffers in use
	single     int              // buffers of Register not yet released
	waiters    [uses][]*waiter  // oldest first
	busy       int              // registrations being made or ended without mu
	quiet      sync.Cond        // on mu: busy became 0
	scarce     func()           // see OnScarce
	starved    func() bool      // nil, or the process was at its memory limit: fed will be called, unless this returns true
	reserve    *Reserve         // or nil
	owns       bool             // the reserve is the pool's now
	lent       int              // buffers of the reserve in use
	settled    chan struct{}    // nil, or closed when the pool leaves the reserve: see GiveWay
	divided    func(Division)   // see OnDivision
	failed     error            // error of the last registration
	closed     bool
	gone       bool // the protection domain is closed
}

// Stats are the statistics of a pool. Sizes are in bytes.
type Stats struct {
	Limit      int64
	Registered int64 // in slabs
	Taken      int64 // in buffers not yet released
	Starved    bool  // the pool waits for memory of the process
}

// New makes an empty pool of at most limit bytes, but at least MinLimit. It closes pd when
// the pool closes.
func New(pd verbs.PD, access verbs.Access, limit int64) *Pool {
	p := &Pool{pd: pd, access: access, limit: max(limit, MinLimit), scarce: func() {}, divided: func(Division) {}}
	p.quiet.L = &p.mu
	return p
}

// OnScarce sets f, which is called whenever a request finds no memory, in the goroutine of
// the request. It is not called for a receive beyond the share of receives. f can make other holders give memory back. It must neither wait nor use the
// pool. Call OnScarce before the pool is used.
func (p *Pool) OnScarce(f func()) { p.scarce = f }

// Stats returns the current statistics.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Limit: p.limit, Registered: p.registered, Taken: p.taken(), Starved: p.starved != nil}
}

// taken returns the number of bytes of all buffers in use. p.mu is held.
func (p *Pool) taken() (n int64) {
	for _, u := range p.used {
		n += u
	}
	return n
}

// TryAlloc returns a buffer of at least n bytes, or nil if there is none now or n is over
// MaxBuffer. For Fetch it does not overtake requests that wait in Alloc. For Service it
// does, because the caller may hold memory that others wait for.
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
	if b == nil {
		p.lack(classOf(n), use)
	}
	return b
}

// Failure returns why the last attempt to register memory failed. It is nil if that
// succeeded. Then the pool's limit is the reason when there is no memory.
func (p *Pool) Failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// take returns a buffer of a class, or of the smallest large class instead. It returns nil
// without an error if there is none now. p.mu is held, but released while memory is
// registered.
func (p *Pool) take(class int, use Use) (*Buffer, error) {
	b, err := p.takeExactly(class, use)
	if b == nil && err == nil && class < firstLarge {
		return p.takeExactly(firstLarge, use)
	}
	return b, err
}

func (p *Pool) takeExactly(class int, use Use) (*Buffer, error) {
	for {
		if p.closed {
			return nil, ErrClosed
		}
		if !p.allowed(class, use) {
			return nil, nil
		}
		if len(p.free[class]) > 0 {
			break
		}
		if again, err := p.grow(class); !again {
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
	p.count(class, use, 1)
	return b, nil
}

// allowed reports whether the share has room for one more buffer.
func (p *Pool) allowed(class int, use Use) bool {
	size := int64(classSize(class))
	switch use {
	case Fetch:
		return p.used[Fetch]+size <= p.share(fetchShare)
	case Receive, Extra, Divided:
		most := p.share(receiveShare)
		if use == Extra && 2*(p.used[Extra]+size) > most {
			return false
		}
		if use != Receive {
			most -= most / newcomersPart
		}
		return p.receives()+size <= most &&
			(class < firstLarge || p.base+size <= p.share(baseShare))
	}
	return true
}

// receives reports whether the use is for receives.
func (u Use) receives() bool { return u == Receive || u == Extra || u == Divided }

// FreeForReceives returns how much more memory receives may take, in bytes.
func (p *Pool) FreeForReceives() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.share(receiveShare)-p.receives(), 0)
}

// receives returns the memory of all receives, in bytes.
func (p *Pool) receives() int64 { return p.used[Receive] + p.used[Extra] + p.used[Divided] }

func (p *Pool) share(eighths int64) int64 { return p.limit / 8 * eighths }

// count records that a buffer was taken (1) or given back (-1).
func (p *Pool) count(class int, use Use, sign int64) {
	size := sign * int64(classSize(class))
	p.used[use] += size
	if use.receives() && class >= firstLarge {
		p.base += size
		p.divide()
	}
}

// grow adds a slab to a class, if necessary in place of unused slabs of other classes. It
// adds none if the limit or the share of small classes is reached, or the process has no
// memory. again means that the caller must look for a free buffer again, because grow
// unlocked p.mu and others may have used the pool.
func (p *Pool) grow(class int) (again bool, err error) {
	if !p.makeRoom(class) {
		return false, nil
	}
	p.register(class, 1)
	p.begin()
	s, err := newSlab(p, class)
	p.end()
	if err != nil {
		p.register(class, -1)
	} else {
		p.free[class] = append(p.free[class], s)
	}
	full := errors.Is(err, offheap.ErrLimit)
	if !full {
		p.failed = err
		p.wake() // who came meanwhile found neither the new buffers nor the room for them
	}
	if p.closed {
		p.mustSweep()
	}
	if full {
		return p.starve(), nil
	}
	return err == nil, err
}

// makeRoom drops unused slabs until the limit and the share of small classes allow one more
// slab of a class. It returns false if that is impossible.
func (p *Pool) makeRoom(class int) bool {
	need := int64(slabSize(class))
	small := class < firstLarge
	for p.registered+need > p.limit || (small && p.base+need > p.share(baseShare)) {
		last := classes - 1
		if small && p.base+need > p.share(baseShare) {
			last = firstLarge - 1 // only small classes make room
		}
		s := p.unused(last)
		if s == nil {
			return false
		}
		p.drop(s)
	}
	return true
}

// begin releases p.mu for work on a registration. end takes it again.
func (p *Pool) begin() {
	p.busy++
	p.mu.Unlock()
}

func (p *Pool) end() {
	p.mu.Lock()
	if p.busy--; p.busy == 0 {
		p.quiet.Broadcast()
	}
}

// register records that a slab was registered (1) or unregistered (-1).
func (p *Pool) register(class int, sign int64) {
	size := sign * int64(slabSize(class))
	p.registered += size
	if class < firstLarge {
		p.base += size
		p.divide()
	}
}

// unused removes a slab without used buffers from its class, the largest class up to last
// first, and returns it.
func (p *Pool) unused(last int) *slab {
	for c := last; c >= 0; c-- {
		for i, s := range p.free[c] {
			if s.allFree() {
				p.free[c] = append(p.free[c][:i], p.free[c][i+1:]...)
				return s
			}
		}
	}
	return nil
}

// drop unregisters a slab that was removed from its class. Requests that came meanwhile found
// neither the slab nor the room for another, so drop wakes them.
func (p *Pool) drop(s *slab) {
	p.begin()
	err := s.close()
	p.end()
	if err != nil {
		panic("regmem: unregister unused memory: " + err.Error())
	}
	p.register(s.class, -1)
	p.wake()
}

// put gives a buffer back to the pool.
func (p *Pool) put(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.taken {
		panic("regmem: buffer released twice")
	}
	b.taken = false
	s := b.slab
	p.count(s.class, b.use, -1)
	if len(s.free) == 0 {
		p.free[s.class] = append(p.free[s.class], s)
	}
	s.free = append(s.free, b)
	switch {
	case p.closed:
		p.mustSweep()
	case s.allFree() && p.othersWait():
		p.free[s.class] = slices.DeleteFunc(p.free[s.class], func(f *slab) bool { return f == s })
		p.drop(s)
	default:
		p.wake()
	}
}

// Register registers mem on its own, regardless of the limit. It is for callers that can
// neither wait nor continue without it. Release unregisters it. The caller keeps owning
// mem.
func (p *Pool) Register(mem []byte) (*Buffer, error) {
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	p.single++
	p.mu.Unlock()
	mr, err := p.pd.RegMR(mem, p.access)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.uncount()
		return nil, err
	}
	return &Buffer{slab: &slab{pool: p, class: alone, size: len(mem), mem: mem, mr: mr}, taken: true}, nil
}

// Single is Register for n bytes that the buffer owns. It ignores the process's memory
// limit.
func (p *Pool) Single(n int) (*Buffer, error) {
	return p.alone(n, offheap.Force)
}

// alone returns a buffer with a registration of its own, in memory of alloc.
func (p *Pool) alone(n int, alloc func(int) (*offheap.Region, error)) (*Buffer, error) {
	region, err := alloc(n)
	if err != nil {
		return nil, err
	}
	b, err := p.Register(region.Bytes()[:n:n])
	if err != nil {
		region.Free()
		return nil, err
	}
	b.slab.owned = region
	return b, nil
}

func (p *Pool) unregister(b *Buffer) {
	if err := b.slab.close(); err != nil {
		panic("regmem: unregister a single buffer: " + err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.slab.lent {
		p.lent--
		p.settle()
	}
	p.uncount()
}

// uncount records that a buffer of Register was released. p.mu is held.
func (p *Pool) uncount() {
	p.single--
	if p.closed {
		p.mustSweep()
	}
}

// Trim unregisters the slabs that were not used since the last Trim, or all that are unused if
// others wait for memory of the process.
func (p *Pool) Trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgo()                // TryAlloc may have found none
	others := p.othersWait() // not asked again: nobody waits just after the first slab is freed
	var due []*slab
	for c := range p.free {
		for _, s := range p.free[c] {
			if s.allFree() && (s.idle || others) {
				due = append(due, s)
			}
			s.idle = s.allFree()
		}
	}
	for _, s := range due {
		if i := slices.Index(p.free[s.class], s); i >= 0 && s.idle { // the lock was released meanwhile
			p.free[s.class] = slices.Delete(p.free[s.class], i, i+1)
			p.drop(s)
		}
	}
}

// Close unregisters everything. Buffers in use keep their memory and the protection domain.
// Both are freed when the last buffer is released. Close then returns verbs.ErrBusy.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.forgo()
	p.wake()
	err := p.sweep()
	for p.busy > 0 {
		p.quiet.Wait()
	}
	if e := p.sweep(); err == nil { // others may have unregistered the last memory
		err = e
	}
	if p.taken() > 0 || p.single > 0 {
		return fmt.Errorf("regmem: close: %d bytes and %d single buffers taken: %w", p.taken(), p.single, verbs.ErrBusy)
	}
	return err
}

// mustSweep is sweep for callers that cannot return an error. Only a bug makes it fail.
func (p *Pool) mustSweep() {
	if err := p.sweep(); err != nil {
		panic("regmem: close protection domain: " + err.Error())
	}
}

// sweep unregisters all unused memory, and closes the protection domain after the last. The
// pool is closed. p.mu is held, but released meanwhile.
func (p *Pool) sweep() error {
	for s := p.unused(classes - 1); s != nil; s = p.unused(classes - 1) {
		p.drop(s)
	}
	if p.registered > 0 || p.single > 0 || p.gone {
		return nil
	}
	p.gone = true
	return p.pd.Close()
}
