package softiwarp

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/lease"
)

// Reading: one goroutine at a time has the right to read a connection. It is the consumer
// that waits for completions (cq.go), or the receiving goroutine while no consumer waits.
// A consumer that has received completions keeps the right while it is away, because it
// usually waits again soon. If it does not, the device's watch releases the right. Then the
// next input starts the receiving goroutine, so that the peer's Reads and Terminates are
// answered. When the receiving goroutine wakes up a consumer, it leaves the right to that
// consumer and ends.

var _ lease.Holder = (*queuePair)(nil)

// Lease implements lease.Holder.
func (q *queuePair) Lease() *lease.Lease { return &q.reading }

// Expired implements lease.Holder.
func (q *queuePair) Expired() { q.unattend() }

// unattend releases the right to read. The next input, or the connection's end, starts the
// receiving goroutine, unless a consumer waits before that. The caller holds the right.
func (q *queuePair) unattend() {
	q.rx.park()
	if !q.rx.watch() {
		q.rx.unwatched = true
		go q.receive()
		return
	}
	q.reading.Release()
	// Input, or the end, may have come while the caller held the right.
	if (q.input.Load() || q.dying.Load()) && q.reading.Take() {
		go q.receive()
	}
}

// readable is called when there is input for an unattended queue pair.
func (q *queuePair) readable() {
	q.input.Store(true)
	if q.reading.Take() {
		go q.receive()
	}
}

// watch requests that readable is called at the next input. It returns false if the system
// refuses that.
func (r *receiver) watch() bool {
	if r.notices == nil {
		r.notices = r.q.dev.inputs.add(r.q)
	}
	if !r.watched && r.notices != nil {
		r.q.input.Store(false)
		_ = r.q.raw.Control(r.request) // an error means that the connection is closed
	}
	return r.watched
}

// attend begins to read. It ends the watching.
func (r *receiver) attend() {
	if r.watched {
		r.watched = false
		if !r.q.input.Load() {
			_ = r.q.raw.Control(r.withdraw)
		}
	}
}

// receive is the body of the receiving goroutine. It ends when there is nothing to read and
// the consumer rests. If the system refused to watch the socket, the goroutine stays until the
// consumer rests once more, and then asks the system again.
func (q *queuePair) receive() {
	r := &q.rx
	r.attend()
	stays := r.unwatched
	r.unwatched = false
	for {
		r.look = !stays && q.recvCQ.resting(q)
		in := r.fill()
		r.look = false
		if in == inputNone {
			q.unattend()
			return
		}
		if in == inputEnd || in == inputMore && !r.consume() {
			break
		}
		if in == inputInterrupted {
			stays = false
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

// backgroundLocked makes input start the receiving goroutine, because no consumer waits. If
// that goroutine is there, it looks whether the consumer rests.
func (q *queuePair) backgroundLocked() {
	switch {
	case !q.rxActive:
	case q.reading.Take():
		q.unattend()
	default:
		q.interrupt()
	}
}

// stopReading ends receiving. The caller holds the right to read, and no goroutine gets it
// afterwards.
func (q *queuePair) stopReading() {
	q.Lock()
	defer q.Unlock()
	q.stopReadingLocked()
	q.finishLocked()
}

func (q *queuePair) stopReadingLocked() {
	r := &q.rx
	r.release()
	q.dev.inputs.forget(q)
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
