//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// pollBatch is the largest number of completions taken from a device at once.
const pollBatch = 32

var _ verbs.Notifier = (*completionQueue)(nil)

// completionQueue is a CQ with its completion channel. All completions pass through a queue
// in memory, which also holds the completions that the device does not make.
type completionQueue struct {
	driver.CQBase
	dev      *device
	busyPoll time.Duration
	handle   uint64
	c        *C.struct_ibv_cq
	channel  *C.struct_ibv_comp_channel
	events   descriptor
	attends  func(uintptr) bool // attend
	invFlag  C.uint             // see invalidatedFlag

	polled atomic.Bool // the consumer has polled since the last sweep

	// The lock guards the following fields.

	batch  []C.struct_rdmad_wc
	wait   waiter
	ctx    context.Context // of the current wait
	asleep bool            // the wait has found no completion yet
	// armed means that an event was requested and not taken yet. It may have come.
	armed bool
}

// create creates the device's queue.
func (c *completionQueue) create() error {
	c.busyPoll, c.invFlag = c.dev.config.Tuning.BusyPoll, c.dev.invalidatedFlag()
	c.batch = make([]C.struct_rdmad_wc, pollBatch)
	c.Lock() // a goroutine that finds it by its handle waits until it is complete
	defer c.Unlock()
	c.handle = handles.add(c)
	rc := command(func() C.int {
		return C.rdmad_create_cq(c.dev.ctx.c, C.int(c.Depth), C.uint64_t(c.handle), &c.channel, &c.c)
	})
	if rc != 0 {
		handles.remove(c.handle)
		return failed(fmt.Sprintf("create completion queue of %d", c.Depth), rc)
	}
	var err error
	if c.events, err = newDescriptor(int(c.channel.fd), "completion channel"); err != nil {
		handles.remove(c.handle)
		command(func() C.int { return C.rdmad_destroy_cq(c.channel, c.c) })
		c.c = nil
		return err
	}
	c.attends = c.attend
	return nil
}

// Poll implements verbs.CQ.
func (c *completionQueue) Poll(wc []verbs.WC) int {
	c.polled.Store(true)
	c.Lock()
	defer c.Unlock()
	n := c.Queue.Take(wc)
	for n < len(wc) && c.pullLocked(false) > 0 {
		n += c.Queue.Take(wc[n:])
	}
	return n
}

// pullLocked moves completions from the device to the queue and returns how many the
// device had. arm requests an event for later completions.
func (c *completionQueue) pullLocked(arm bool) int {
	if c.ClosedLocked() || c.c == nil {
		return 0
	}
	armed := C.int(0)
	if arm {
		armed, c.armed = 1, true
	}
	n := c.pollDevice(armed)
	if n == -C.EACCES {
		n = c.pollAtHome(armed)
	}
	for i := range max(n, 0) {
		w := &c.batch[i]
		if q, ok := c.UserLocked(numOf(uint64(w.wr_id))).(*queuePair); ok {
			q.completed(w)
		}
	}
	return max(n, 0)
}

func (c *completionQueue) pollDevice(armed C.int) int {
	return int(C.rdmad_poll(c.c, &c.batch[0], pollBatch, armed, c.invFlag))
}

// pollAtHome is a separate function because a closure in the polling function would
// cost memory for every poll.
func (c *completionQueue) pollAtHome(armed C.int) (n int) {
	atHome(func() { n = c.pollDevice(armed) })
	return n
}

// sweep checks for failed queue pairs, unless the consumer polls. Completions beyond the
// CQ's depth stay with the device until the consumer polls.
func (c *completionQueue) sweep() {
	if c.polled.Swap(false) {
		return
	}
	c.Lock()
	full := c.Queue.Len() >= c.Depth
	c.Unlock()
	if !full {
		c.pull()
	}
}

// pull moves all completions that the device has now.
func (c *completionQueue) pull() {
	c.Lock()
	for c.pullLocked(false) == pollBatch {
	}
	if c.Queue.Len() > 0 {
		c.wakeLocked()
	}
	c.Unlock()
}

// wakeLocked wakes up the consumer: it runs the requested notification, or ends the wait.
func (c *completionQueue) wakeLocked() {
	if c.Queue.Len() == 0 || !c.NotifyingLocked() {
		c.events.interrupt()
	}
}

// overflowed fails all queue pairs that complete here, because the device has lost
// completions.
func (c *completionQueue) overflowed() {
	c.Lock()
	defer c.Unlock()
	c.OverflowLocked()
}

// Wait implements verbs.CQ. It reads one event from the channel each time that it slept.
func (c *completionQueue) Wait(ctx context.Context) error {
	if c.busyPoll > 0 && c.spin(ctx) {
		return c.outcome(ctx)
	}
	c.watch(ctx)
	for c.events.wait(c.attends) != nil { // interrupted or closed
		// The interrupter made ready's condition true before it interrupted.
		c.events.resume()
		if c.ready() {
			break
		}
	}
	return c.outcome(ctx)
}

// watch makes the end of ctx interrupt the wait.
func (c *completionQueue) watch(ctx context.Context) {
	c.Lock()
	defer c.Unlock()
	c.withdrawLocked()
	c.ctx, c.asleep = ctx, false
	if !c.ClosedLocked() {
		c.wait.watch(ctx, &c.events)
	}
}

// withdrawLocked drops the function of ReqNotify: Wait reports completions from here on.
func (c *completionQueue) withdrawLocked() {
	if c.RequestedLocked() {
		c.NotifyLocked(nil)
		c.dev.notices.Withdraw(int(c.channel.fd))
	}
}

// attend is called by the runtime's poller when the wait begins and whenever an event
// comes, until it returns true.
func (c *completionQueue) attend(uintptr) bool {
	c.Lock()
	defer c.Unlock()
	if c.asleep {
		c.takeEventLocked()
		c.pullLocked(false)
	}
	c.asleep = !c.readyLocked(c.ctx)
	return !c.asleep
}

func (c *completionQueue) ready() bool {
	c.Lock()
	defer c.Unlock()
	return c.readyLocked(c.ctx)
}

// readyLocked reports whether there is a reason not to wait. If it returns false, an event
// comes with the next completion. The poller reports only events that come from now on.
// So if an event has come already, readyLocked takes it and requests the next one.
func (c *completionQueue) readyLocked(ctx context.Context) bool {
	for {
		before := c.armed
		for c.Queue.Len() == 0 && c.pullLocked(!c.armed) > 0 {
		}
		if c.reasonLocked(ctx) {
			return true
		}
		if !before || !c.takeEventLocked() {
			return false
		}
	}
}

// takeEventLocked takes the requested event, if it has come.
func (c *completionQueue) takeEventLocked() bool {
	if c.ClosedLocked() || C.rdmad_event(c.channel) == 0 {
		return false
	}
	c.armed = false
	return true
}

func (c *completionQueue) reasonLocked(ctx context.Context) bool {
	return c.ClosedLocked() || c.Queue.Len() > 0 || ctx.Err() != nil
}

// outcome returns the result of a wait that has a reason to end.
func (c *completionQueue) outcome(ctx context.Context) error {
	c.Lock()
	defer c.Unlock()
	switch {
	case c.ClosedLocked():
		return verbs.ErrClosed
	case c.Queue.Len() > 0:
		return nil
	}
	return ctx.Err()
}

// spin polls for completions for the busy-poll interval. It reports whether there is a
// reason not to wait.
func (c *completionQueue) spin(ctx context.Context) bool {
	until := time.Now().Add(c.busyPoll)
	for {
		c.Lock() // other goroutines push into the queue in the meantime
		c.withdrawLocked()
		for c.Queue.Len() == 0 && c.pullLocked(false) > 0 {
		}
		ready := c.reasonLocked(ctx)
		c.Unlock()
		if ready || !time.Now().Before(until) {
			return ready
		}
	}
}

// ReqNotify implements verbs.Notifier.
func (c *completionQueue) ReqNotify(f func()) bool {
	c.Lock()
	defer c.Unlock()
	if c.readyLocked(context.Background()) {
		return c.ClosedLocked()
	}
	if err := c.dev.notices.Request(int(c.channel.fd), c.handle); err != nil {
		return false
	}
	c.NotifyLocked(f)
	return true
}

// noticed takes the event for ReqNotify. The event may concern a completion that was
// taken already. noticed then waits for the next event.
func (c *completionQueue) noticed() {
	c.Lock()
	defer c.Unlock()
	if !c.RequestedLocked() {
		return
	}
	if c.readyLocked(context.Background()) || c.dev.notices.Request(int(c.channel.fd), c.handle) != nil {
		c.NotifyingLocked()
	}
}

// Close implements verbs.CQ.
func (c *completionQueue) Close() error {
	first, err := c.Shut()
	if !first {
		return err
	}
	handles.remove(c.handle)
	c.Lock()
	c.wait.stop()
	c.Unlock()
	c.events.interrupt()
	c.events.close() // waits until no goroutine uses the channel
	c.dev.notices.Forget(int(c.channel.fd))
	if rc := command(func() C.int { return C.rdmad_destroy_cq(c.channel, c.c) }); !c.dev.destroyed(rc) {
		return failed("destroy completion queue", rc)
	}
	c.Free()
	return nil
}

// flush moves the device's remaining completions to the queue. It then calls f, which
// queues the rest, with the lock held.
func (c *completionQueue) flush(f func()) {
	c.Lock()
	for c.pullLocked(false) > 0 {
	}
	f()
	c.wakeLocked()
	c.Unlock()
}

// flushedSlack bounds the unpolled completions, beyond the CQ's depth, of requests posted
// in the error state.
const flushedSlack = 1024

// pushFlushed queues completions that the device does not make, of n requests to a queue pair,
// unless that is closed.
func (c *completionQueue) pushFlushed(qp uint32, n int, id func(i int) uint64) (int, error) {
	c.Lock()
	defer c.Unlock()
	if c.UserLocked(qp) == nil {
		return 0, verbs.ErrClosed
	}
	for i := range n {
		if c.Queue.Len() >= c.Depth+flushedSlack {
			return i, fmt.Errorf("rdmacore: post in the error state: %w", verbs.ErrQueueFull)
		}
		c.Queue.Push(&verbs.WC{ID: id(i), Status: verbs.WCWRFlushErr, QPNum: qp})
	}
	c.wakeLocked()
	return n, nil
}
