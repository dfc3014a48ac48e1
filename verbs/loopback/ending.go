package loopback

import (
	"errors"
	"fmt"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// up reports whether messages are executed, which includes draining.
func (e *end) up() bool { return e.phase == phaseUp || e.phase == phaseDraining }

// down moves the end and its queue pair into the error state.
func (e *end) down(reason error) {
	if e.phase == phaseEnded {
		return
	}
	was := e.phase
	e.phase, e.err = phaseEnded, reason
	if e.qp != nil {
		e.qp.flush()
	}
	switch was {
	case phaseUp, phaseDraining:
		close(e.disconnected)
	case phaseConnecting:
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
	case e.phase == phaseIdle || e.phase == phaseEnded || e.peer == nil:
		return
	case e.phase == phaseRequested:
		m = message{kind: msgReject}
	}
	e.wire.purge()
	e.transmit(m, nil)
}

// Disconnect sends what was posted before. It ends the connection when that is done or the
// peer takes too long.
func (e *end) Disconnect() error {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	switch e.phase {
	case phaseDraining, phaseEnded:
		return nil
	case phaseUp:
		e.phase = phaseDraining
		e.drainBy = time.Now().Add(drainTime)
		e.qp.drain = e.qp.sq.tail
		e.link.run()
		return nil
	}
	return fmt.Errorf("loopback: disconnect: %w", verbs.ErrQPState)
}

// Disconnected is never closed if the connection never was up.
func (e *end) Disconnected() <-chan struct{} { return e.disconnected }

// Close ends the connection without waiting for unsent requests.
func (e *end) Close() error {
	e.link.mu.Lock()
	if e.closed {
		e.link.mu.Unlock()
		return nil
	}
	e.closed = true
	e.finish()
	if e.qp != nil {
		e.qp.destroy()
	}
	e.link.run()
	e.link.mu.Unlock()
	e.provider.users.Unuse()
	return nil
}
