package driver

import (
	"context"

	"github.com/rdmad/rdmad/verbs"
)

// CQ is a completion queue in memory: a bounded ring. A completion that finds it
// full is lost, and every queue pair that completes here fails.
type CQ struct {
	CQBase
	waiting bool // a goroutine is in Wait and wants a token
	lost    bool // a completion, since the last poll
	token   chan struct{}
}

var _ verbs.Notifier = (*CQ)(nil)

// Push adds a completion and wakes up the goroutine in Wait. The caller may hold
// any lock of a queue pair.
func (c *CQ) Push(wc *verbs.WC) {
	if c.PushQuietly(wc) {
		c.Wake()
	}
}

// PushQuietly is Push, but leaves waking up to the caller: true says that it has to
// call Wake, soon.
func (c *CQ) PushQuietly(wc *verbs.WC) (wake bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Queue.n == c.Depth {
		if !c.lost {
			c.lost = true
			c.OverflowLocked()
		}
		return false
	}
	if c.Queue.n == len(c.Queue.buf) {
		c.Queue.grow(c.Depth)
	}
	c.Queue.put(wc)
	if c.notify != nil {
		c.NotifyingLocked()
	}
	wake = c.waiting
	c.waiting = false
	return wake
}

// Wake wakes up the goroutine in Wait.
func (c *CQ) Wake() {
	select {
	case c.token <- struct{}{}:
	default:
	}
}

// Poll implements verbs.CQ.
func (c *CQ) Poll(wc []verbs.WC) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.Queue.Take(wc)
	c.lost = c.lost && n == 0
	return n
}

// Wait implements verbs.CQ.
func (c *CQ) Wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		ready, closed := c.Queue.n > 0, c.closed
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
func (c *CQ) ReqNotify(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Queue.n > 0 {
		return false
	}
	c.NotifyLocked(f)
	c.waiting = false
	c.Queue.Free()
	return true
}

// Close implements verbs.CQ.
func (c *CQ) Close() error {
	first, err := c.Shut()
	if first {
		c.Wake()
		c.Free()
	}
	return err
}
