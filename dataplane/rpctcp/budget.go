package rpctcp

import (
	"context"
	"sync"
)

// budget bounds the bytes that are out at one time. Those who find too little
// left wait in turn, so that small requests can't starve a large one.
type budget struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter // the oldest first
}

type waiter struct {
	n       int
	granted chan struct{} // closed when n bytes were taken for the waiter
}

// acquire takes n bytes, which must not be over what the budget was made
// with, or returns the reason why ctx ended first.
func (b *budget) acquire(ctx context.Context, n int) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.free >= n {
		b.free -= n
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

// cancel takes w out of the queue, or gives back what it was granted meanwhile.
func (b *budget) cancel(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted:
		b.free += w.n
	default:
		for i, other := range b.waiting {
			if other == w {
				b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
				break
			}
		}
	}
	b.grant()
}

// force takes n bytes that exist already, if need be more than there are: then
// others wait until the debt is paid.
func (b *budget) force(n int) {
	b.mu.Lock()
	b.free -= n
	b.mu.Unlock()
}

// release gives n bytes back.
func (b *budget) release(n int) {
	b.mu.Lock()
	b.free += n
	b.grant()
	b.mu.Unlock()
}

// grant lets the oldest waiters go on for whom there is enough. b.mu is held.
func (b *budget) grant() {
	for len(b.waiting) > 0 && b.waiting[0].n <= b.free {
		w := b.waiting[0]
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		b.free -= w.n
		close(w.granted)
	}
}
