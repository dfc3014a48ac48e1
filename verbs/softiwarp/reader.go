package softiwarp

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/lease"
)

// Reading: one goroutine at a time has the right to read a connection. It is the consumer
// that waits for completions (cq.go), or the receiving goroutine while no consumer waits.
// A consumer that has received completions keeps the right while it is away, because it
// usually waits again soon. If it does not, the device's watch starts the receiving
// goroutine, so that the peer's Reads and Terminates are answered. When the receiving
// goroutine wakes up a consumer, it leaves the right to that consumer and ends.

var _ lease.Holder = (*queuePair)(nil)

// Lease implements lease.Holder.
func (q *queuePair) Lease() *lease.Lease { return &q.reading }

// Expired implements lease.Holder.
func (q *queuePair) Expired() { go q.receive() }

// receive is the body of the receiving goroutine.
func (q *queuePair) receive() {
	r := &q.rx
	for {
		in := r.fill()
		if in == inputEnd || in == inputMore && !r.consume() {
			break
		}
		if in == inputInterrupted {
			continue
		}
		q.received()
		if c := q.recvCQ; c.driver.Load() == q && (r.wakeRecv || r.wakeSend) {
			r.wakeRecv, r.wakeSend = false, false
			q.away()
			c.Wake()
			return
		}
		r.wake()
	}
	r.wake()
	q.stopReading()
}

// away leaves the right to read to a consumer that is expected to wait again.
func (q *queuePair) away() {
	q.rx.park()
	q.reading.Leave()
	q.dev.watch.Add(q)
	if q.dying.Load() && q.reading.Take() {
		q.stopReading()
	}
}

// background starts the receiving goroutine if no goroutine is reading.
func (q *queuePair) background() {
	if q.reading.Take() {
		go q.receive()
	}
}

// stopReading ends receiving. The caller holds the right to read, and nobody gets it
// again.
func (q *queuePair) stopReading() {
	q.Lock()
	defer q.Unlock()
	q.stopReadingLocked()
	q.finishLocked()
}

func (q *queuePair) stopReadingLocked() {
	r := &q.rx
	r.release()
	if r.start != nil {
		r.start.put()
		r.start = nil
	}
	q.rxActive = false
	q.endLocked(&r.end)
}

// interrupt makes the reader stop waiting for input and check why.
func (q *queuePair) interrupt() { _ = q.conn.SetReadDeadline(longAgo) }

// resume ends an interruption. It returns false when reading has to end.
func (q *queuePair) resume() bool {
	q.Lock()
	defer q.Unlock()
	if q.StateLocked() == verbs.QPErr || (!q.readTill.IsZero() && !time.Now().Before(q.readTill)) {
		return false
	}
	_ = q.conn.SetReadDeadline(q.readTill)
	return true
}
