package driver

import (
	"context"

	"github.com/rdmad/rdmad/verbs"
)

// CQ is a completion queue in memory: a bounded ring. If it is full, further completions
// are lost, and every queue pair that completes here fails.
type CQ struct {
	CQBase
	waiting bool // a goroutine is in Wait and needs a token
	token   chan struct{}
}

var _ verbs.Notifier = (*CQ)(nil)

// Push adds a completion and wakes the goroutine in Wait. The caller may hold the lock of a
// queue pair.
func (c *CQ) Push(wc *verbs.WC) {
	if c.PushQuietly(wc) {
		c.Wake()
	}
}

// PushQuietly is Push without waking. If it returns true, the caller must call Wake soon.
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

// Wake wakes the goroutine in Wait.
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
		if ready, err := c.Arm(); ready || err != nil {
			return err
		}
		select {
		case <-c.token:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Arm says whether there is a completion to poll, or that the queue is closed. If there
// is none, the caller is about to wait, and the next PushQuietly returns true. Nobody is
// notified any more.
func (c *CQ) Arm() (ready bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ready, c.notify = c.Queue.n > 0, nil
	c.waiting = !ready && !c.closed
	if c.closed {
		return false, verbs.ErrClosed
	}
	return ready, nil
}

// ReqNotify implements verbs.Notifier.
func (c *CQ) ReqNotify(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Queue.n > 0 {
		return false
	}
	c.NotifyLocked(f)
	c.waiting = false
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
