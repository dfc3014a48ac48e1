package loopback

import (
	"errors"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// up reports whether messages are executed, which includes draining.
func (e *end) up() bool { return e.phase == phaseUp || e.phase == phaseDraining }

// down moves the end and its queue pair into the error state.
func (e *end) down(reason error) {
	if e.phase == phaseEnded {
		return
	}
	was := e.phase
	e.phase = phaseEnded
	if q := e.qp; q != nil {
		q.fail(reason)
		q.flush()
	}
	switch was {
	case phaseUp, phaseDraining:
		e.Ended()
	case phaseUnanswered:
		e.settle(reason)
	}
}

// finish ends the connection in order, after everything sent before.
func (e *end) finish() {
	e.leave(message{kind: msgFinish})
	e.down(verbs.ErrDisconnected)
}

// abort ends the connection. The peer sees it as aborted.
func (e *end) abort(reason error) {
	told := errAborted
	if errors.Is(reason, errDropped) {
		told = errDropped
	}
	e.leave(message{kind: msgAbort, reason: told})
	e.down(reason)
}

// leave sends the end of the connection to the peer, unless it has ended.
func (e *end) leave(m message) {
	switch {
	case e.phase == phaseEnded || e.peer == nil:
		return
	case e.phase == phaseRequested:
		m = message{kind: msgReject}
	}
	e.wire.purge()
	e.transmit(m, nil)
}

// Disconnect implements driver.QueuePair. It sends what was posted before. It ends the
// connection when that is done or the peer takes too long.
func (q *queuePair) Disconnect() error {
	e := q.end
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	q.Lock()
	begun, err := q.DrainLocked()
	q.Unlock()
	if begun {
		e.phase, e.drainBy = phaseDraining, time.Now().Add(drainTime)
		q.drain = q.sq.tail
		e.link.run()
	}
	return err
}

// Close ends the connection, without waiting for unsent requests, or a call in progress.
func (e *end) Close() error {
	if e.Shut() == driver.IDClosed {
		return nil
	}
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.finish()
	if e.qp != nil {
		e.qp.destroy()
	}
	e.link.run()
	e.provider.users.Unuse()
	return nil
}
