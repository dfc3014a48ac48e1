package fair

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// At most 1/reservePart of a pool's limit is kept for shares. When that is too
// little for all holders' shares, holders within their share take turns.
const reservePart = 2

// othersPart is the part of these that is kept for other peers than those that came
// first.
const othersPart = 4

// Pool bounds the bytes that its holders have out at one time. Each may always
// hold its share. Above it a holder borrows, as long as the shares of all others
// stay free. Requests that must wait go in this order: within their holder's share
// before others; of these, the one whose holder has least for its weight.
//
// With more holders than the limit has shares for, those of one peer together have no
// more than they leave free; a peer without others leaves an eighth of the limit.
//
// All methods may be called from any goroutine. Within a share they take no lock
// while nobody waits.
type Pool struct {
	share int64 // of each holder

	reserve atomic.Int64 // kept for shares
	within  atomic.Int64 // held, each holder up to its share
	waiting atomic.Int64 // requests
	lone    atomic.Int64 // what is left free by a peer without others
	crowded atomic.Bool  // more holders than have a share whatever others of their peer do

	mu       sync.Mutex
	limit    int64
	borrowed int64 // held above shares
	holders  int
	coming   int // holders to come for which shares are kept
	peers    map[any]*peer
	queue    []*Share // with requests that wait
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
	granted chan struct{} // closed when n was taken
}

// NewPool makes a pool of limit bytes. A holder's share is the most that one call
// needs.
func NewPool(limit, share int64) *Pool {
	p := &Pool{limit: limit, share: share, peers: make(map[any]*peer), onWait: func() {}}
	p.setReserve()
	return p
}

// OnWait calls f whenever a request has to wait, or is refused because it can't
// wait. f must neither block nor use the pool. Call OnWait before the pool is used.
func (p *Pool) OnWait(f func()) { p.onWait = f }

// Expect keeps shares for n future holders, too: bytes borrowed before they join
// may not be back in time. Call Expect before the pool is used.
func (p *Pool) Expect(n int) {
	p.coming = n
	p.setReserve()
}

// setReserve follows the limit and the number of holders; p.mu is held.
func (p *Pool) setReserve() {
	most := p.limit / reservePart
	p.reserve.Store(min(int64(p.holders+p.coming)*p.share, most))
	p.crowded.Store(int64(p.holders)*p.share > most-most/othersPart)
	p.setLone()
}

// SetLimit changes the limit. Bytes above it that are out are not taken back.
func (p *Pool) SetLimit(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	p.setReserve()
	p.grant()
}

// Join adds a holder of a weight from 1 on. Holders of one peer have keys that are
// equal.
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

// SetWeight changes the holder's weight against others that wait.
func (s *Share) SetWeight(weight int) { s.weight.Store(int64(max(weight, 1))) }

// Leave ends the holder. Its share goes to others when it holds nothing more.
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

// Usage is the bytes that a pool's holders have.
type Usage struct {
	Limit     int64
	Held      int64
	Borrowed  int64 // of it, above shares
	Holders   int
	Waiting   int  // requests
	Exhausted bool // one of them is within its holder's share
}

// Usage returns the present numbers.
func (p *Pool) Usage() Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{
		p.limit, p.within.Load() + p.borrowed, p.borrowed, p.holders, int(p.waiting.Load()),
		slices.ContainsFunc(p.queue, func(s *Share) bool { return s.held.Load()+s.requests[0].n <= p.share }),
	}
}

// Held is how many bytes the holder has.
func (s *Share) Held() int64 { return s.held.Load() }

// Over is how many bytes the holder has above its share.
func (s *Share) Over() int64 { return s.p.above(s.held.Load()) }

// above is how many of a holder's bytes are above its share.
func (p *Pool) above(held int64) int64 { return max(held-p.share, 0) }

// OthersWait says whether a request of another holder waits.
func (s *Share) OthersWait() bool {
	if s.p.waiting.Load() == 0 {
		return false
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.p.waiting.Load() > int64(len(s.requests))
}

// TryAcquire takes n bytes if that needs no waiting.
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

// Acquire takes n bytes, or returns the reason why ctx ended first. A request above
// the pool's limit is granted when no holder has any bytes.
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

// Force takes n bytes at once, if need be above the limit. Then others wait until
// enough has been released.
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
	if p.waiting.Load() > 0 { // somebody may have found too little because of this
		p.mu.Lock()
		p.grant()
		p.mu.Unlock()
	}
	return false
}

// takeNow takes n bytes unless others have to go first; p.mu is held.
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

// count notes that the holder took n bytes and has held now; p.mu is held.
func (s *Share) count(held, n int64) {
	lent := s.p.above(held) - s.p.above(held-n)
	s.p.borrowed += lent
	s.p.within.Add(n - lent)
	s.peer.held.Add(n)
}

// fits says whether a holder of held bytes may have n more; p.mu is held.
func (p *Pool) fits(held, n int64) bool {
	lent := p.above(held+n) - p.above(held)
	within, reserve := p.within.Load(), p.reserve.Load()
	if lent == 0 && within+n <= reserve {
		return true
	}
	if within+p.borrowed == 0 {
		return true // or nobody ever could
	}
	return max(within+n-lent, reserve)+p.borrowed+lent <= p.limit
}

// ask puts a request in line; p.mu is held.
func (s *Share) ask(n int64) *request {
	p, r := s.p, &request{n: n, granted: make(chan struct{})}
	if len(s.requests) == 0 {
		p.queue = append(p.queue, s)
	}
	s.requests = append(s.requests, r)
	p.waiting.Add(1)
	p.onWait()
	p.grant() // what was released just now, without the lock, counts
	return r
}

// cancel takes r out of line, or gives back what it was granted meanwhile.
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

// drop takes the request i out of line; p.mu is held. The holder's next request
// goes behind those of others that hold as little.
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

// grant lets requests go on, the next one first, until there is too little;
// p.mu is held.
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

// next is the holder whose oldest request goes first; nil when none waits, or only
// for its own peer. p.mu is held.
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

// before says whether a request of n bytes goes before the oldest one of o, which
// came first; p.mu is held.
func (s *Share) before(n int64, o *Share) bool {
	mine, theirs := s.held.Load(), o.held.Load()
	within := mine+n <= s.p.share
	if other := theirs+o.requests[0].n <= s.p.share; within != other {
		return within
	}
	return mine*o.weight.Load() < theirs*s.weight.Load()
}
