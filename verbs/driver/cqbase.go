package driver

import (
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// User is a queue pair that completes into a completion queue.
type User interface {
	Num() uint32
	// Overflow fails the queue pair: the queue has lost completions. It is called
	// in a goroutine of its own.
	Overflow()
}

// attached is a user and how many of its two queues complete here.
type attached struct {
	User
	queues int
}

// CQBase is the part of a completion queue that all kinds have: its queue pairs, the
// completions to be polled, and the notification asked for. A kind adds how
// completions arrive.
type CQBase struct {
	Depth int
	Queue Ring // guarded by the lock

	dev    *Device
	mu     sync.Mutex
	users  map[uint32]attached // by number
	notify func()              // see ReqNotify; or nil
	closed bool
}

// Lock locks the queue.
func (c *CQBase) Lock() { c.mu.Lock() }

// Unlock unlocks the queue.
func (c *CQBase) Unlock() { c.mu.Unlock() }

// base lets a queue pair find the CQBase of a provider's completion queue.
func (c *CQBase) base() *CQBase { return c }

// ClosedLocked says whether the queue is closed.
func (c *CQBase) ClosedLocked() bool { return c.closed }

// UserLocked is the queue pair with a number, nil when it does not complete here.
func (c *CQBase) UserLocked(num uint32) User { return c.users[num].User }

// attach counts q as a user, once for each of its queues.
func (c *CQBase) attach(q User) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return verbs.ErrClosed
	}
	c.users[q.Num()] = attached{q, c.users[q.Num()].queues + 1}
	return nil
}

// detach undoes attach and drops the queue pair's completions.
func (c *CQBase) detach(qp uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.users[qp]; u.queues > 1 {
		c.users[qp] = attached{u.User, u.queues - 1}
	} else {
		delete(c.users, qp)
	}
	c.Queue.Drop(qp)
}

// OverflowLocked fails all users, from other goroutines, because the caller may
// hold the lock of one.
func (c *CQBase) OverflowLocked() {
	for _, q := range c.users {
		go q.Overflow()
	}
}

// NotifyLocked has f run at the next NotifyingLocked, in place of an earlier one.
func (c *CQBase) NotifyLocked(f func()) { c.notify = f }

// RequestedLocked says whether ReqNotify's function is still to be run.
func (c *CQBase) RequestedLocked() bool { return c.notify != nil }

// NotifyingLocked runs what ReqNotify asked for, if it did, in a new goroutine.
func (c *CQBase) NotifyingLocked() bool {
	if c.notify == nil {
		return false
	}
	go c.notify()
	c.notify = nil
	return true
}

// Shut closes the queue and says whether it was this call that did. It fails with
// ErrBusy while queue pairs complete here. Free must follow.
func (c *CQBase) Shut() (first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return false, nil
	case len(c.users) > 0:
		return false, fmt.Errorf("completion queue of %d queue pairs: %w", len(c.users), verbs.ErrBusy)
	}
	c.closed, c.notify = true, nil
	return true, nil
}

// Free ends the count of a queue that is gone.
func (c *CQBase) Free() { c.dev.live[CQs].Add(-1) }
