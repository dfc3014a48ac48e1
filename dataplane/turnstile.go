package dataplane

import (
	"context"
	"sync"
)

// turnstile lets a limited number of goroutines through at one time, and the others wait.
// The limit may change.
type turnstile struct {
	mu          sync.Mutex
	limit, used int
	moved       chan struct{} // closed when there may be room; nil when no goroutine waits
}

// enter waits for room and takes it. It returns false when ctx ends first.
func (t *turnstile) enter(ctx context.Context) bool {
	for {
		t.mu.Lock()
		if t.used < t.limit {
			t.used++
			t.mu.Unlock()
			return true
		}
		if t.moved == nil {
			t.moved = make(chan struct{})
		}
		moved := t.moved
		t.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// inside returns how many goroutines are through.
func (t *turnstile) inside() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used--
	t.wakeLocked()
}

// setLimit changes the limit. A lower one takes effect as goroutines leave.
func (t *turnstile) setLimit(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = n
	t.wakeLocked()
}

func (t *turnstile) wakeLocked() {
	if t.moved != nil && t.used < t.limit {
		close(t.moved)
		t.moved = nil
	}
}
