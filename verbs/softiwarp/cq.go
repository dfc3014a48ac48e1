package softiwarp

import (
	"context"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// completionQueue is a completion queue. If only one queue pair completes here, the
// goroutine in Wait reads that queue pair's connection itself. Then no other goroutine
// has to wake it up.
type completionQueue struct {
	driver.CQ
	driver  atomic.Pointer[queuePair] // the only queue pair that completes here, or nil
	driving *queuePair                // the queue pair whose connection the goroutine in Wait reads; guarded by the lock

	done   <-chan struct{} // of the last context given to drive that can end
	forget func() bool     // removes the registration of that context's end; guarded by the lock
}

// used records that q completes here. If it is not the only one, all queue pairs use
// receiving goroutines.
func (c *completionQueue) used(q *queuePair) {
	if !c.Only(q.Num()) {
		q = nil
	}
	c.driver.Store(q)
}

// Push adds a completion and wakes up the goroutine in Wait.
func (c *completionQueue) Push(wc *verbs.WC) {
	if c.PushQuietly(wc) {
		c.Wake()
	}
}

// Wake wakes up the goroutine in Wait. It holds the lock while it interrupts that goroutine: the
// connection can't end meanwhile, and the deadline of its end is not replaced.
func (c *completionQueue) Wake() {
	c.Lock()
	q := c.driving
	if q != nil {
		q.interrupt()
	}
	c.Unlock()
	if q == nil {
		c.CQ.Wake()
	}
}

// drives records the queue pair whose connection the goroutine in Wait reads, or nil.
func (c *completionQueue) drives(q *queuePair) {
	c.Lock()
	defer c.Unlock()
	c.driving = q
}

// Wait implements verbs.CQ.
func (c *completionQueue) Wait(ctx context.Context) error {
	if q := c.driver.Load(); q != nil && q.reading.Take() {
		return c.drive(ctx, q)
	}
	return c.CQ.Wait(ctx)
}

// drive reads q's connection until there is a completion to poll or ctx has ended. The
// caller holds the right to read.
func (c *completionQueue) drive(ctx context.Context, q *queuePair) error {
	c.watch(ctx)
	q.rx.attend()
	c.drives(q)
	for looked := false; ; {
		ready, err := c.Arm()
		if err == nil && !ready && looked {
			err = ctx.Err()
		}
		if ready || err != nil {
			c.drives(nil)
			q.away()
			return err
		}
		ended := ctx.Err() != nil
		in := q.rx.readFor(ended)
		if in == inputEnd {
			c.drives(nil)
			q.stopReading()
			return c.CQ.Wait(ctx)
		}
		looked = ended && in != inputInterrupted
	}
}

// readFor reads one buffer of input and places it. look says that the goroutine must not
// wait for input, because it looks for completions afterwards.
func (r *receiver) readFor(look bool) input {
	r.look = look
	in := r.fill()
	r.look = false
	if in == inputMore && !r.consume() {
		in = inputEnd
	}
	r.wakeRecv, r.wakeSend = false, false
	if in == inputMore {
		r.q.received()
	}
	return in
}

// watch makes the end of ctx interrupt the wait. The registration stays for the next
// wait, so that waiting again with the same context costs nothing.
func (c *completionQueue) watch(ctx context.Context) {
	done := ctx.Done()
	if done == nil || c.done == done {
		return
	}
	c.done = done
	c.Lock()
	defer c.Unlock()
	c.forgetLocked()
	c.forget = context.AfterFunc(ctx, c.Wake)
}

func (c *completionQueue) forgetLocked() {
	if c.forget != nil {
		c.forget()
		c.forget = nil
	}
}

// Close implements verbs.CQ.
func (c *completionQueue) Close() error {
	err := c.CQ.Close()
	if err == nil {
		c.Lock()
		defer c.Unlock()
		c.forgetLocked()
	}
	return err
}

// ReqNotify implements verbs.Notifier. The receiving goroutine calls f.
func (c *completionQueue) ReqNotify(f func()) bool {
	if !c.CQ.ReqNotify(f) {
		return false
	}
	if q := c.driver.Load(); q != nil {
		q.Lock()
		defer q.Unlock()
		q.backgroundLocked()
	}
	return true
}

// resting reports whether q's consumer has requested a notification in place of waiting.
func (c *completionQueue) resting(q *queuePair) bool {
	c.Lock()
	defer c.Unlock()
	return c.RequestedLocked() && c.driver.Load() == q
}

// Shrink implements verbs.Notifier. An empty send queue gives up its storage.
func (c *completionQueue) Shrink() {
	c.CQ.Shrink()
	c.Lock()
	c.done = nil // no goroutine is in Wait
	c.forgetLocked()
	c.Unlock()
	if q := c.driver.Load(); q != nil {
		q.rest()
	}
}
