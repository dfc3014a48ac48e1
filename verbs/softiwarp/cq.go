package softiwarp

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// completionQueue is a bounded ring of completions, which grows with use. A
// completion that finds it full is lost, and every queue pair that completes
// into it dies.
type completionQueue struct {
	dev   *device
	depth int

	mu      sync.Mutex
	ring    []verbs.WC
	head    int // oldest
	count   int
	waiting bool   // a goroutine is in Wait and wants a token
	notify  func() // to be run at the next completion, in place of that; or nil
	lost    bool   // a completion, since the last poll
	closed  bool
	users   map[*queuePair]int

	token chan struct{}
}

var _ verbs.Notifier = (*completionQueue)(nil)

func newCQ(d *device, depth int) *completionQueue {
	return &completionQueue{
		dev:   d,
		depth: depth,
		users: make(map[*queuePair]int),
		token: make(chan struct{}, 1),
	}
}

// push adds a completion and wakes who waits for it. The caller may hold any
// lock of a queue pair.
func (c *completionQueue) push(wc *verbs.WC) {
	if c.pushQuietly(wc) {
		c.wake()
	}
}

// pushQuietly is push, but leaves the waking to the caller: true says that
// it has to call wake, soon.
func (c *completionQueue) pushQuietly(wc *verbs.WC) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == c.depth {
		c.overflowLocked()
		return false
	}
	if c.count == len(c.ring) {
		c.growLocked()
	}
	i := c.head + c.count
	if i >= len(c.ring) {
		i -= len(c.ring)
	}
	c.ring[i] = *wc
	c.count++
	if c.notify != nil {
		go c.notify()
		c.notify = nil
	}
	wake := c.waiting
	c.waiting = false
	return wake
}

func (c *completionQueue) growLocked() {
	ring := make([]verbs.WC, min(max(2*len(c.ring), ringStart), c.depth))
	n := copy(ring, c.ring[c.head:])
	copy(ring[n:], c.ring[:c.head])
	c.ring, c.head = ring, 0
}

func (c *completionQueue) wake() {
	select {
	case c.token <- struct{}{}:
	default:
	}
}

// overflowLocked fails the users from another goroutine, because the caller
// may hold the lock of one.
func (c *completionQueue) overflowLocked() {
	if c.lost {
		return
	}
	c.lost = true
	for q := range c.users {
		go q.fail(errCQOverflow, &rdmap.Term{Fault: rdmap.LocalCatastrophic})
	}
}

func (c *completionQueue) Poll(wc []verbs.WC) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(wc), c.count)
	c.lost = c.lost && n == 0
	for i := range n {
		wc[i] = c.ring[c.head]
		if c.head++; c.head == len(c.ring) {
			c.head = 0
		}
	}
	c.count -= n
	return n
}

func (c *completionQueue) Wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		ready, closed := c.count > 0, c.closed
		c.waiting = !ready && !closed
		c.mu.Unlock()
		switch {
		case closed:
			return verbs.ErrClosed
		case ready:
			return nil
		}
		select {
		case <-c.token:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ReqNotify implements verbs.Notifier. An idle queue needs no ring.
func (c *completionQueue) ReqNotify(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count > 0 {
		return false
	}
	c.notify, c.waiting = f, false
	c.ring, c.head = nil, 0
	return true
}

// attach counts q as a user, once for each of its queues.
func (c *completionQueue) attach(q *queuePair) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return verbs.ErrClosed
	}
	c.users[q]++
	return nil
}

// detach undoes attach and drops q's completions.
func (c *completionQueue) detach(q *queuePair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users[q]--; c.users[q] == 0 {
		delete(c.users, q)
	}
	kept := 0
	for i := range c.count {
		wc := c.ring[(c.head+i)%len(c.ring)]
		if wc.QPNum != q.num {
			c.ring[(c.head+kept)%len(c.ring)] = wc
			kept++
		}
	}
	c.count = kept
}

func (c *completionQueue) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if len(c.users) > 0 {
		return fmt.Errorf("completion queue of %d queue pairs: %w", len(c.users), verbs.ErrBusy)
	}
	c.closed, c.notify = true, nil
	c.wake()
	c.dev.live.cqs.Add(-1)
	return nil
}
