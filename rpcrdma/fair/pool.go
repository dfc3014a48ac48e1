package fair

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// At most 1/reservePart of a pool's limit is reserved for shares. If that is too little for
// the shares of all holders, holders within their share take turns.
const reservePart = 2

// 1/othersPart of the reserve is for peers other than the first.
const othersPart = 4

// Pool limits the bytes that its holders have at one time. Each may always hold its share.
// Beyond it a holder borrows, as long as the shares of all others stay free. Waiting
// requests are served in this order: first those within their holder's share; among equals,
// the one whose holder has least for its weight.
//
// With more holders than the limit has shares for, the holders of one peer together hold at
// most as much as they leave free. A peer without others leaves an eighth of the limit
// free.
//
// All methods may be called from any goroutine. Requests within a share take no lock while
// nobody waits.
type Pool struct {
	share int64 // of each holder

	reserve atomic.Int64 // reserved for shares
	within  atomic.Int64 // held within shares
	waiting atomic.Int64 // waiting requests
	lone    atomic.Int64 // bytes that an only peer must leave free
	crowded atomic.Bool  // there are more holders than guaranteed shares

	mu       sync.Mutex
	limit    int64
	borrowed int64 // held beyond shares
	holders  int
	coming   int // expected future holders for which shares are reserved
	peers    map[any]*peer
	queue    []*Share // holders with waiting requests
	onWait   func()
}

// Share is one holder's part of a pool.
type Share struct {
	p      *Pool
	peer   *peer
	held   atomic.Int64
	weight atomic.Int64
	left   atomic.Bool

	// Under p.mu:
	counted  bool       // among the holders
	requests []*request // oldest first
}

type request struct {
	n       int64
	granted chan struct{} // closed when n bytes were taken
}

// NewPool makes a pool of limit bytes. share is the most that one call needs.
func NewPool(limit, share int64) *Pool {
	p := &Pool{limit: limit, share: share, peers: make(map[any]*peer), onWait: func() {}}
	p.setReserve()
	return p
}

// OnWait sets f, which is called whenever a request has to wait, or is refused because it
// cannot wait. f must neither block nor use the pool. Call OnWait before the pool is used.
func (p *Pool) OnWait(f func()) { p.onWait = f }

// Expect reserves shares for n future holders as well, because borrowed bytes may not be
// back when they join. Call Expect before the pool is used.
func (p *Pool) Expect(n int) {
	p.coming = n
	p.setReserve()
}

// setReserve updates the reserve from the limit and the number of holders. p.mu is held.
func (p *Pool) setReserve() {
	most := p.limit / reservePart
	p.reserve.Store(min(int64(p.holders+p.coming)*p.share, most))
	p.crowded.Store(int64(p.holders)*p.share > most-most/othersPart)
	p.setLone()
}

// SetLimit changes the limit. Bytes beyond it that are in use are not taken back.
func (p *Pool) SetLimit(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	p.setReserve()
	p.grant()
}

// Join adds a holder with a weight of at least 1. Holders of one peer have equal keys.
func (p *Pool) Join(key any, weight int) *Share {
	s := &Share{p: p, counted: true}
	s.SetWeight(weight)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.peer = p.joined(key)
	p.holders++
	p.setReserve()
	return s
}

// SetWeight changes the holder's weight relative to others that wait.
func (s *Share) SetWeight(weight int) { s.weight.Store(int64(max(weight, 1))) }

// Leave removes the holder. Its share is free for others once it holds nothing.
func (s *Share) Leave() {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.left.Store(true)
	s.settle()
}

// settle frees the share of a holder that has left and holds nothing; p.mu is
// held.
func (s *Share) settle() {
	if s.counted && s.left.Load() && s.held.Load() == 0 {
		s.counted = false
		s.p.left(s.peer)
		s.p.holders--
		s.p.setReserve()
		s.p.grant()
	}
}

// Usage is the use of a pool, in bytes.
type Usage struct {
	Limit     int64
	Held      int64
	Holders   int
	Waiting   int  // waiting requests
	Exhausted bool // one of them is within its holder's share
}

// Usage returns the present numbers.
func (p *Pool) Usage() Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{
		p.limit, p.within.Load() + p.borrowed, p.holders, int(p.waiting.Load()),
		slices.ContainsFunc(p.queue, func(s *Share) bool { return s.held.Load()+s.requests[0].n <= p.share }),
	}
}

// Held returns how many bytes the holder has.
func (s *Share) Held() int64 { return s.held.Load() }

// Over returns how many bytes the holder has beyond its share.
func (s *Share) Over() int64 { return s.p.above(s.held.Load()) }

// above returns how many of a holder's bytes are beyond its share.
func (p *Pool) above(held int64) int64 { return max(held-p.share, 0) }

// OthersWait reports whether a request of another holder waits.
func (s *Share) OthersWait() bool {
	if s.p.waiting.Load() == 0 {
		return false
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.waiting.Load() > int64(len(s.requests))
}

// TryAcquire takes n bytes if it need not wait.
func (s *Share) TryAcquire(n int64) bool {
	if s.takeWithin(n) {
		return true
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	ok := s.takeNow(n)
	if !ok {
		s.p.onWait()
	}
	return ok
}

// Acquire takes n bytes, or returns why ctx ended first. A request larger than the pool's
// limit is granted when no holder has any bytes.
func (s *Share) Acquire(ctx context.Context, n int64) error {
	if s.takeWithin(n) {
		return nil
	}
	p := s.p
	p.mu.Lock()
	if s.takeNow(n) {
		p.mu.Unlock()
		return nil
	}
	r := s.ask(n)
	p.mu.Unlock()
	select {
	case <-r.granted:
		return nil
	case <-ctx.Done():
		s.cancel(r)
		return context.Cause(ctx)
	}
}

// Force takes n bytes at once, beyond the limit if necessary. Others then wait until enough
// has been released.
func (s *Share) Force(n int64) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.count(s.held.Add(n), n)
}

// Release gives n bytes back.
func (s *Share) Release(n int64) {
	p := s.p
	after := s.held.Add(-n)
	s.peer.held.Add(-n)
	lent := p.above(after+n) - p.above(after)
	p.within.Add(lent - n)
	if lent == 0 && p.waiting.Load() == 0 && !s.left.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.borrowed -= lent
	s.settle()
	p.grant()
}

// takeWithin takes n bytes of the share, without the lock. It fails if another
// request waits, or if the holder would have to borrow.
func (s *Share) takeWithin(n int64) bool {
	p := s.p
	if p.waiting.Load() > 0 || s.held.Load()+n > p.share {
		return false
	}
	within, reserve := p.within.Add(n), p.reserve.Load()
	if within <= reserve && s.leaves(n, reserve-within+n) {
		for h := s.held.Load(); h+n <= p.share; h = s.held.Load() {
			if s.held.CompareAndSwap(h, h+n) {
				s.peer.held.Add(n)
				return true
			}
		}
	}
	p.within.Add(-n)
	if p.waiting.Load() > 0 { // another goroutine may have found too little because of this
		p.mu.Lock()
		p.grant()
		p.mu.Unlock()
	}
	return false
}

// takeNow takes n bytes unless other requests go first. p.mu is held.
func (s *Share) takeNow(n int64) bool {
	if next := s.p.next(); next != nil && (len(s.requests) > 0 || !s.before(n, next)) {
		return false
	}
	return s.take(n)
}

// take takes n bytes if there are enough; p.mu is held.
func (s *Share) take(n int64) bool {
	for {
		h := s.held.Load()
		if !s.p.fits(h, n) || !s.leaves(n, s.p.free()) {
			return false
		}
		if s.held.CompareAndSwap(h, h+n) {
			s.count(h+n, n)
			return true
		}
	}
}

// count records that the holder took n bytes and now has held. p.mu is held.
func (s *Share) count(held, n int64) {
	lent := s.p.above(held) - s.p.above(held-n)
	s.p.borrowed += lent
	s.p.within.Add(n - lent)
	s.peer.held.Add(n)
}

// fits reports whether a holder of held bytes may have n more. p.mu is held.
func (p *Pool) fits(held, n int64) bool {
	lent := p.above(held+n) - p.above(held)
	within, reserve := p.within.Load(), p.reserve.Load()
	if lent == 0 && within+n <= reserve {
		return true
	}
	if within+p.borrowed == 0 {
		return true // otherwise no holder ever could
	}
	return max(within+n-lent, reserve)+p.borrowed+lent <= p.limit
}

// ask queues a request. p.mu is held.
func (s *Share) ask(n int64) *request {
	p, r := s.p, &request{n: n, granted: make(chan struct{})}
	if len(s.requests) == 0 {
		p.queue = append(p.queue, s)
	}
	s.requests = append(s.requests, r)
	p.waiting.Add(1)
	p.onWait()
	p.grant() // another goroutine may just have released bytes without the lock
	return r
}

// cancel removes r from the queue, or gives back what it was granted meanwhile.
func (s *Share) cancel(r *request) {
	p := s.p
	p.mu.Lock()
	i := slices.Index(s.requests, r)
	if i >= 0 {
		s.drop(i)
		p.grant()
	}
	p.mu.Unlock()
	if i < 0 {
		s.Release(r.n)
	}
}

// drop removes request i from the queue. p.mu is held. The holder's next request goes after
// those of others that hold as little.
func (s *Share) drop(i int) {
	p := s.p
	s.requests = slices.Delete(s.requests, i, i+1)
	p.waiting.Add(-1)
	at := slices.Index(p.queue, s)
	p.queue = slices.Delete(p.queue, at, at+1)
	if len(s.requests) > 0 {
		p.queue = append(p.queue, s)
	}
}

// grant serves waiting requests in order until there are too few bytes. p.mu is held.
func (p *Pool) grant() {
	for s := p.next(); s != nil; s = p.next() {
		r := s.requests[0]
		if !s.take(r.n) {
			return
		}
		s.drop(0)
		close(r.granted)
	}
}

// next returns the holder whose oldest request goes first, or nil if none waits or all wait
// for their own peer only. p.mu is held.
func (p *Pool) next() (first *Share) {
	free := p.free()
	for _, s := range p.queue {
		if !s.leaves(s.requests[0].n, free) {
			continue
		}
		if first == nil || s.before(s.requests[0].n, first) {
			first = s
		}
	}
	return first
}

// before reports whether a request of n bytes goes before the oldest one of o, which came
// first. p.mu is held.
func (s *Share) before(n int64, o *Share) bool {
	mine, theirs := s.held.Load(), o.held.Load()
	within := mine+n <= s.p.share
	if other := theirs+o.requests[0].n <= s.p.share; within != other {
		return within
	}
	return mine*o.weight.Load() < theirs*s.weight.Load()
}
