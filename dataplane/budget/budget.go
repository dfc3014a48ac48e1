// Package budget limits what is in use at one time: bytes, or calls. It is a weighted
// semaphore whose limit can change, and whose holders may go into debt.
package budget

import (
	"context"
	"slices"
	"sync"
)

// Budget counts what is in use, and queues requests that find too little left. They are
// served in order, so small requests cannot starve a large one. All methods may be called
// from any goroutine.
type Budget struct {
	mu      sync.Mutex
	limit   int64
	out     int64
	waiting []*waiter // oldest first
}

type waiter struct {
	n       int64
	granted chan struct{} // closed when n was taken for the waiter
}

// New makes a budget with nothing in use.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Acquire takes n, at most the limit, or returns why ctx ended first.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
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

// fits reports whether n more may be in use. One request is always allowed, because the
// limit may fall below what it waits for.
func (b *Budget) fits(n int64) bool { return b.out == 0 || b.out+n <= b.limit }

// cancel removes w from the queue, or gives back what it was granted meanwhile.
func (b *Budget) cancel(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.out -= w.n
	}
	b.grant()
}

// Release gives n back.
func (b *Budget) Release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out -= n
	b.grant()
}

// SetLimit changes the limit. Units that are in use stay in use.
func (b *Budget) SetLimit(limit int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
	b.grant()
}

// Limit returns the current limit.
func (b *Budget) Limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

// grant serves the oldest waiting requests while there is enough. b.mu is held.
func (b *Budget) grant() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].n) {
		w := b.waiting[0]
		b.waiting = slices.Delete(b.waiting, 0, 1)
		b.out += w.n
		close(w.granted)
	}
}

// Used returns how much is in use, and how many requests wait.
func (b *Budget) Used() (out int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out, len(b.waiting)
}
