package connector

import (
	"context"
	"slices"
	"sync"
)

// budget bounds what is out at one time: bytes of calls, or calls. Those who
// find too little left wait in turn, so that small requests can't starve a large
// one.
type budget struct {
	mu      sync.Mutex
	limit   int64
	out     int64
	waiting []*waiter // the oldest first
}

type waiter struct {
	n       int64
	granted chan struct{} // closed when n was taken for the waiter
}

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// acquire takes n, at most the limit, or returns the reason why ctx ended
// first.
func (b *budget) acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.fits(n) {
		b.out += n
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		b.cancel(w)
		return context.Cause(ctx)
	}
}

// fits says whether n more may be out. One is always let through: a limit may
// fall below what somebody waits for.
func (b *budget) fits(n int64) bool { return b.out == 0 || b.out+n <= b.limit }

// cancel takes w out of the queue, or gives back what it was granted meanwhile.
func (b *budget) cancel(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.out -= w.n
	}
	b.grant()
}

// release gives n back.
func (b *budget) release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out -= n
	b.grant()
}

// setLimit changes the limit. What is out stays out.
func (b *budget) setLimit(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
	b.grant()
}

// grant lets the oldest waiters go on for whom there is enough; b.mu is held.
func (b *budget) grant() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].n) {
		w := b.waiting[0]
		b.waiting = slices.Delete(b.waiting, 0, 1)
		b.out += w.n
		close(w.granted)
	}
}

// used is how much is out.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out
}
