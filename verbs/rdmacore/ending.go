//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Intervals at which a draining queue pair checks for completions.
const (
	firstDrainPoll = 50 * time.Microsecond
	lastDrainPoll  = 5 * time.Millisecond
)

// fail moves the queue pair into the error state. Only the first call has an effect. A
// goroutine does the remaining work.
func (q *queuePair) fail(cause error) {
	q.Lock()
	defer q.Unlock()
	if !q.FailLocked(cause) {
		return
	}
	if q.nudgeTimer != nil {
		q.nudgeTimer.Stop()
	}
	q.sq.enter(sendDead)
	q.rq.mu.Lock()
	q.rq.open = false
	q.rq.mu.Unlock()
	close(q.dying)
	go q.end(q.established, q.calling)
}

// peerEnded records that the peer has ended the connection. The peer may have ended it
// because of one of our requests, whose failure nobody has polled yet. Then that failure is
// the reason.
func (q *queuePair) peerEnded() {
	q.sendCQ.pull()
	q.fail(verbs.ErrDisconnected)
}

// failSoon calls fail in another goroutine. The caller may hold the lock of a queue.
func (q *queuePair) failSoon(cause error) { go q.fail(cause) }

// end destroys the device's queue pair and completes the remaining requests. It takes the
// completions first, because some devices drop them with the queue pair. Nothing may post
// any more.
func (q *queuePair) end(established bool, calling <-chan struct{}) {
	if calling != nil {
		<-calling
	}
	if established && !q.id.hold() {
		command(func() C.int { return C.rdmad_disconnect(q.id.c) }) // fails if the peer disconnected first
	}
	command(func() C.int { return C.rdmad_qp_error(q.c) })
	q.sendCQ.pull()
	q.recvCQ.pull()
	for _, w := range q.windows.all() {
		w.leave(q)
	}
	handles.remove(q.handle)
	if rc := command(func() C.int { return C.ibv_destroy_qp(q.c) }); rc != 0 {
		q.dev.config.Logger.Error("rdmacore: queue pair not destroyed", "error", failed("destroy queue pair", rc))
	}
	q.sendCQ.flush(func() {
		q.sq.mu.Lock()
		defer q.sq.mu.Unlock()
		q.releaseSendsLocked(true)
	})
	q.recvCQ.flush(q.flushReceivesLocked)
	close(q.flushed)
	if established {
		q.id.Ended()
	}
}

// Disconnect implements driver.QueuePair. It starts an orderly end.
func (q *queuePair) Disconnect() error {
	q.Lock()
	defer q.Unlock()
	if begun, err := q.DrainLocked(); !begun {
		return err
	}
	q.sq.posting.Lock()
	if q.sq.phase == sendOpen {
		q.postMarker()
		q.sq.phase = sendHeld
	}
	q.sq.posting.Unlock()
	go q.drain()
	return nil
}

// postMarker posts an empty RDMA Write. Its completion shows that all requests before it
// are done. The caller holds posting.
func (q *queuePair) postMarker() {
	q.postInternal(C.IBV_SEND_SIGNALED, func(s *sendQueue) bool { return s.head != s.last })
}

// drain waits until the device has completed all posted requests, for the drain timeout at
// most. It then ends the connection.
func (q *queuePair) drain() {
	interval := firstDrainPoll
	timeout := time.NewTimer(q.dev.config.DrainTimeout)
	defer timeout.Stop()
	for !q.drained() {
		poll := time.NewTimer(interval)
		select {
		case <-poll.C:
			interval = min(2*interval, lastDrainPoll)
			continue
		case <-timeout.C:
		case <-q.dying:
		}
		poll.Stop()
		break
	}
	q.fail(verbs.ErrDisconnected)
}

func (q *queuePair) drained() bool {
	q.sendCQ.pull()
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	return int32(q.sq.head-q.sq.last) >= 0
}

// postFlushed completes n requests posted in the error state as flushed, after all requests
// that were posted before them. id returns the ID of each.
func (q *queuePair) postFlushed(c *completionQueue, n int, id func(i int) uint64) (int, error) {
	<-q.flushed
	return c.pushFlushed(q.Num(), n, id)
}
