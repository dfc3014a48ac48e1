package driver

import (
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// User is a queue pair that completes into a completion queue.
type User interface {
	Num() uint32
	// Overflow fails the queue pair, because the queue has lost completions. It is called
	// in its own goroutine.
	Overflow()
}

// attached is a user and the number of its two queues that complete here.
type attached struct {
	User
	num    uint32
	queues int
}

// CQBase is the common part of all kinds of completion queues: the queue pairs, the
// completions to poll, and the requested notification. Each kind adds how completions
// arrive.
type CQBase struct {
	Depth int
	Queue Ring // guarded by the lock

	dev    *Device
	mu     sync.Mutex
	first  attached            // one of the users, or none: most queues have no other
	users  map[uint32]attached // the others, by number
	notify func()              // see ReqNotify; or nil
	closed bool
	lost   bool // a completion was lost since the last poll, and no user has come since then
}

// Lock locks the queue.
func (c *CQBase) Lock() { c.mu.Lock() }

// Unlock unlocks the queue.
func (c *CQBase) Unlock() { c.mu.Unlock() }

// base returns the CQBase of a provider's completion queue.
func (c *CQBase) base() *CQBase { return c }

// ClosedLocked reports whether the queue is closed.
func (c *CQBase) ClosedLocked() bool { return c.closed }

// UserLocked returns the queue pair with a number, or nil if it does not complete here.
func (c *CQBase) UserLocked(num uint32) User { return c.userLocked(num).User }

func (c *CQBase) userLocked(num uint32) attached {
	if u := c.first; u.User != nil && u.num == num {
		return u
	}
	return c.users[num]
}

// setLocked changes or adds a user. Without queues, it is removed.
func (c *CQBase) setLocked(u attached) {
	switch {
	case c.first.User != nil && c.first.num == u.num, c.first.User == nil && c.users[u.num].User == nil:
		if c.first = u; u.queues == 0 {
			c.first = attached{}
		}
	case u.queues == 0:
		delete(c.users, u.num)
	default:
		if c.users == nil {
			c.users = make(map[uint32]attached)
		}
		c.users[u.num] = u
	}
}

// countLocked returns the number of users.
func (c *CQBase) countLocked() int {
	if c.first.User != nil {
		return 1 + len(c.users)
	}
	return len(c.users)
}

// Only says whether a queue pair is the only one that completes here, with both of its
// queues.
func (c *CQBase) Only(num uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.countLocked() == 1 && c.userLocked(num).queues == 2
}

// attach counts q as a user, once for each of its queues.
func (c *CQBase) attach(q User) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return verbs.ErrClosed
	}
	c.setLocked(attached{q, q.Num(), c.userLocked(q.Num()).queues + 1})
	c.lost = false
	return nil
}

// detach undoes attach and drops the queue pair's completions.
func (c *CQBase) detach(qp uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.userLocked(qp)
	u.num, u.queues = qp, max(u.queues-1, 0)
	c.setLocked(u)
	c.Queue.Drop(qp)
}

// OverflowLocked fails all users, in other goroutines, because the caller may hold the lock
// of one of them.
func (c *CQBase) OverflowLocked() {
	if q := c.first.User; q != nil {
		go q.Overflow()
	}
	for _, q := range c.users {
		go q.Overflow()
	}
}

// NotifyLocked makes the next NotifyingLocked run f. It replaces an earlier f. nil means that
// nothing is requested.
func (c *CQBase) NotifyLocked(f func()) { c.notify = f }

// RequestedLocked reports whether a function of ReqNotify is waiting to run.
func (c *CQBase) RequestedLocked() bool { return c.notify != nil }

// Shrink implements verbs.Notifier. An idle queue needs no ring.
func (c *CQBase) Shrink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Queue.n == 0 {
		c.Queue.Free()
	}
}

// NotifyingLocked runs the function of ReqNotify, if there is one, in a new goroutine.
func (c *CQBase) NotifyingLocked() bool {
	if c.notify == nil {
		return false
	}
	go c.notify()
	c.notify = nil
	return true
}

// Shut closes the queue. first is true for the call that closed it. It fails with ErrBusy
// while queue pairs complete here. The caller must then call Free.
func (c *CQBase) Shut() (first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return false, nil
	case c.countLocked() > 0:
		return false, fmt.Errorf("completion queue of %d queue pairs: %w", c.countLocked(), verbs.ErrBusy)
	}
	c.closed, c.notify = true, nil
	return true, nil
}

// Free uncounts a destroyed queue.
func (c *CQBase) Free() { c.dev.live[CQs].Add(-1) }
