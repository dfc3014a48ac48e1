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
	drain    func(uintptr) bool // takes the channel's events
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
	c.drain = func(uintptr) bool { return C.rdmad_events(c.channel) > 0 }
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
		armed = 1
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

// Wait implements verbs.CQ.
func (c *completionQueue) Wait(ctx context.Context) error {
	if done, err := c.look(ctx, c.busyPoll > 0); done {
		return err
	}
	c.watch(ctx)
	for {
		// Whoever interrupts has made true before what look sees.
		c.events.resume()
		if done, err := c.look(ctx, false); done {
			return err
		}
		_ = c.events.wait(c.drain) // interrupted or closed: look says which
	}
}

// watch makes the end of ctx interrupt the wait.
func (c *completionQueue) watch(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wait.watch(ctx, &c.events)
	}
}

// look says whether there is a reason not to wait, after asking the device for
// an event. It spins first if so told.
func (c *completionQueue) look(ctx context.Context, spin bool) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var until time.Time
	if spin {
		until = time.Now().Add(c.busyPoll)
	}
	for {
		spin = spin && time.Now().Before(until)
		for c.queue.n == 0 && c.pullLocked(!spin) > 0 {
		}
		switch {
		case c.closed:
			return true, verbs.ErrClosed
		case c.queue.n > 0:
			return true, nil
		case ctx.Err() != nil:
			return true, ctx.Err()
		case !spin:
			return false, nil
		}
		c.mu.Unlock() // let others post into the queue
		c.mu.Lock()
	}
}

// Close implements verbs.CQ.
func (c *completionQueue) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if c.users > 0 {
		return fmt.Errorf("rdmacore: completion queue of %d queues: %w", c.users, verbs.ErrBusy)
	}
	c.closed = true
	handles.remove(c.handle)
	c.wait.stop()
	c.events.interrupt()
	c.events.close() // waits until a waiter has left the channel
	if rc := command(func() C.int { return C.rdmad_destroy_cq(c.channel, c.c) }); !c.dev.destroyed(rc) {
		return failed("destroy completion queue", rc)
	}
	c.dev.live.cqs.Add(-1)
	return nil
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
