//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// pollBatch is how many completions are taken from a device at once.
const pollBatch = 32

// completionQueue is a CQ with its completion channel. Completions go through
// a queue of its own, which also takes those that the device does not make.
type completionQueue struct {
	dev      *device
	depth    int
	busyPoll time.Duration
	handle   uint64
	c        *C.struct_ibv_cq
	channel  *C.struct_ibv_comp_channel
	events   descriptor
	attends  func(uintptr) bool // attend
	invFlag  C.uint             // see invalidatedFlag

	polled atomic.Bool // since the last sweep

	mu    sync.Mutex
	queue completions
	batch []C.struct_rdmad_wc
	// The queue pairs that complete here, by number; users counts one twice
	// that does so with both its queues.
	qps    map[uint32]*queuePair
	users  int
	closed bool
	wait   waiter
	ctx    context.Context // of the wait
	asleep bool            // it has found nothing yet
	// armed: an event was asked for. It may have come, but was not taken.
	armed bool
}

func (d *device) newCQ(depth int) (*completionQueue, error) {
	c := &completionQueue{
		dev: d, depth: depth, busyPoll: d.config.Tuning.BusyPoll,
		batch: make([]C.struct_rdmad_wc, pollBatch), qps: make(map[uint32]*queuePair), invFlag: d.invalidatedFlag(),
	}
	c.mu.Lock() // who finds it by its handle waits until it is whole
	defer c.mu.Unlock()
	c.handle = handles.add(c)
	if rc := command(func() C.int { return C.rdmad_create_cq(d.ctx.c, C.int(depth), C.uint64_t(c.handle), &c.channel, &c.c) }); rc != 0 {
		handles.remove(c.handle)
		return nil, failed(fmt.Sprintf("create completion queue of %d", depth), rc)
	}
	var err error
	if c.events, err = newDescriptor(int(c.channel.fd), "completion channel"); err != nil {
		handles.remove(c.handle)
		command(func() C.int { return C.rdmad_destroy_cq(c.channel, c.c) })
		c.c = nil
		return nil, err
	}
	c.attends = c.attend
	d.live.cqs.Add(1)
	return c, nil
}

// Poll implements verbs.CQ.
func (c *completionQueue) Poll(wc []verbs.WC) int {
	c.polled.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.queue.take(wc)
	for n < len(wc) && c.pullLocked(false) > 0 {
		n += c.queue.take(wc[n:])
	}
	return n
}

// pullLocked moves completions from the device to the queue and says how many
// the device had; arm asks for an event for those that come later.
func (c *completionQueue) pullLocked(arm bool) int {
	if c.closed || c.c == nil {
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
		if q := c.qps[numOf(uint64(w.wr_id))]; q != nil {
			q.completed(w)
		}
	}
	return max(n, 0)
}

func (c *completionQueue) pollDevice(armed C.int) int {
	return int(C.rdmad_poll(c.c, &c.batch[0], pollBatch, armed, c.invFlag))
}

// pollAtHome is apart from who polls all the time: it costs memory.
func (c *completionQueue) pollAtHome(armed C.int) (n int) {
	atHome(func() { n = c.pollDevice(armed) })
	return n
}

// sweep looks whether a queue pair has failed, unless the consumer does so
// itself. What it does not poll stays with the device beyond the CQ's depth.
func (c *completionQueue) sweep() {
	if c.polled.Swap(false) {
		return
	}
	c.mu.Lock()
	full := c.queue.n >= c.depth
	c.mu.Unlock()
	if !full {
		c.pull()
	}
}

// attach makes a queue pair one that completes here.
func (c *completionQueue) attach(q *queuePair) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return verbs.ErrClosed
	}
	c.qps[q.num] = q
	c.users++
	return nil
}

// detach ends that; the queue pair's completions vanish.
func (c *completionQueue) detach(q *queuePair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.qps, q.num)
	c.users--
	c.queue.drop(q.num)
}

// pull takes in what the device has now.
func (c *completionQueue) pull() {
	c.mu.Lock()
	for c.pullLocked(false) == pollBatch {
	}
	waiting := c.queue.n > 0
	c.mu.Unlock()
	if waiting {
		c.events.interrupt()
	}
}

// overflowed ends all queue pairs that complete here: the device has lost
// completions.
func (c *completionQueue) overflowed() {
	c.mu.Lock()
	all := make([]*queuePair, 0, len(c.qps))
	for _, q := range c.qps {
		all = append(all, q)
	}
	c.mu.Unlock()
	for _, q := range all {
		q.fail(errOverflow)
	}
}

// Wait implements verbs.CQ. Of the channel it reads an event each time that it
// slept, and nothing else.
func (c *completionQueue) Wait(ctx context.Context) error {
	if c.busyPoll > 0 && c.spin(ctx) {
		return c.outcome(ctx)
	}
	c.watch(ctx)
	for c.events.wait(c.attends) != nil { // interrupted or closed
		// Whoever interrupts has made true before what ready sees.
		c.events.resume()
		if c.ready() {
			break
		}
	}
	return c.outcome(ctx)
}

// watch makes the end of ctx interrupt the wait.
func (c *completionQueue) watch(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx, c.asleep = ctx, false
	if !c.closed {
		c.wait.watch(ctx, &c.events)
	}
}

// attend is called by the runtime's poller when the wait begins, and whenever
// an event has come, until it is true.
func (c *completionQueue) attend(uintptr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asleep {
		c.takeEventLocked()
		c.pullLocked(false)
	}
	c.asleep = !c.readyLocked()
	return !c.asleep
}

func (c *completionQueue) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readyLocked()
}

// readyLocked says whether there is a reason not to wait. If there is none, an
// event comes with the next completion. The poller tells of events that come
// from now on: one that has come already is taken, and the next one asked for.
func (c *completionQueue) readyLocked() bool {
	for {
		before := c.armed
		for c.queue.n == 0 && c.pullLocked(!c.armed) > 0 {
		}
		if c.reasonLocked(c.ctx) {
			return true
		}
		if !before || !c.takeEventLocked() {
			return false
		}
	}
}

// takeEventLocked takes the event that was asked for, if it has come.
func (c *completionQueue) takeEventLocked() bool {
	if c.closed || C.rdmad_event(c.channel) == 0 {
		return false
	}
	c.armed = false
	return true
}

func (c *completionQueue) reasonLocked(ctx context.Context) bool {
	return c.closed || c.queue.n > 0 || ctx.Err() != nil
}

// outcome is what a wait that has a reason to end ends with.
func (c *completionQueue) outcome(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return verbs.ErrClosed
	case c.queue.n > 0:
		return nil
	}
	return ctx.Err()
}

// spin looks for completions for the busy-poll interval. It says whether there
// is a reason not to wait.
func (c *completionQueue) spin(ctx context.Context) bool {
	until := time.Now().Add(c.busyPoll)
	for {
		c.mu.Lock() // others post into the queue meanwhile
		for c.queue.n == 0 && c.pullLocked(false) > 0 {
		}
		ready := c.reasonLocked(ctx)
		c.mu.Unlock()
		if ready || !time.Now().Before(until) {
			return ready
		}
	}
}

// Close implements verbs.CQ.
func (c *completionQueue) Close() error {
	if closing, err := c.close(); !closing {
		return err
	}
	c.events.interrupt()
	c.events.close() // waits until a waiter has left the channel
	if rc := command(func() C.int { return C.rdmad_destroy_cq(c.channel, c.c) }); !c.dev.destroyed(rc) {
		return failed("destroy completion queue", rc)
	}
	c.dev.live.cqs.Add(-1)
	return nil
}

// close has nobody use the device's queue any more; false when it was closed
// already, or can't be.
func (c *completionQueue) close() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, nil
	}
	if c.users > 0 {
		return false, fmt.Errorf("rdmacore: completion queue of %d queues: %w", c.users, verbs.ErrBusy)
	}
	c.closed = true
	handles.remove(c.handle)
	c.wait.stop()
	return true, nil
}

// flush takes in what the device still has and then lets f queue the rest, with
// the lock held.
func (c *completionQueue) flush(f func()) {
	c.mu.Lock()
	for c.pullLocked(false) > 0 {
	}
	f()
	c.mu.Unlock()
	c.events.interrupt()
}

// flushedSlack bounds the completions of requests posted in the error state
// that nobody polls, beyond the CQ's depth.
const flushedSlack = 1024

// pushFlushed queues n completions that no device makes.
func (c *completionQueue) pushFlushed(n int, wc func(i int) verbs.WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range n {
		if c.queue.n >= c.depth+flushedSlack {
			return i, fmt.Errorf("rdmacore: post in the error state: %w", verbs.ErrQueueFull)
		}
		w := wc(i)
		c.queue.push(&w)
	}
	c.events.interrupt()
	return n, nil
}
