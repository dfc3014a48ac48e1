package loopback

import (
	"context"
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// cq is a completion queue.
type cq struct {
	dev   *device
	depth int
	users int // queue pairs; guarded by dev.mu
	wake  chan struct{}
	done  chan struct{}

	mu       sync.Mutex
	queue    ring[verbs.WC]
	overflow bool   // sticky
	notify   func() // to be run at the next completion, or nil
	closed   bool
}

var _ verbs.Notifier = (*cq)(nil)

func newCQ(d *device, depth int) *cq {
	return &cq{dev: d, depth: depth, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// push adds a completion; false when the CQ has overflowed, now or before.
func (c *cq) push(wc verbs.WC) bool {
	c.mu.Lock()
	if c.overflow || c.queue.len() == c.depth {
		c.overflow = true
		c.mu.Unlock()
		return false
	}
	*c.queue.push() = wc
	if c.notify != nil {
		go c.notify()
		c.notify = nil
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

func (c *cq) Poll(wc []verbs.WC) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(wc), c.queue.len())
	for i := range n {
		wc[i] = *c.queue.first()
		c.queue.pop()
	}
	return n
}

// Wait waits on a channel only; a token of an earlier push may wake it once
// for nothing.
func (c *cq) Wait(ctx context.Context) error {
	for {
		c.mu.Lock()
		ready, closed := c.queue.len() > 0, c.closed
		c.mu.Unlock()
		switch {
		case closed:
			return verbs.ErrClosed
		case ready:
			return nil
		}
		select {
		case <-c.wake:
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ReqNotify implements verbs.Notifier.
func (c *cq) ReqNotify(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.len() > 0 {
		return false
	}
	c.notify = f
	return true
}

// drop removes the completions of a queue pair.
func (c *cq) drop(qp uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.queue.len() {
		wc := *c.queue.first()
		c.queue.pop()
		if wc.QPNum != qp {
			*c.queue.push() = wc
		}
	}
}

func (c *cq) Close() error {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	if c.users > 0 {
		return fmt.Errorf("loopback: close CQ: %w", verbs.ErrBusy)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed, c.notify = true, nil
	close(c.done)
	c.dev.live.CQs--
	return nil
}
