package loopback

import (
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// queuePair belongs to one end. Its link's lock guards it.
type queuePair struct {
	driver.QP
	end            *end
	dev            *device
	pd             *pd
	sendCQ, recvCQ *driver.CQ

	sq      ring[sendEntry]
	started uint64 // first entry of sq not started
	drain   uint64 // while draining: first entry that does not start
	held    int    // slots of completed unsignaled requests that are still in use
	reads   int    // RDMA Reads outstanding
	rq      ring[recvEntry]
	windows map[*window]struct{} // bound on this queue pair
	closed  bool
}

// CreateQP implements rdmacm.ID.
func (e *end) CreateQP(p verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	domain, ok := p.(*pd)
	if !ok || domain.dev != e.provider.dev {
		return nil, fmt.Errorf("loopback: create QP: %w", driver.ErrForeignPD)
	}
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	switch {
	case e.closed:
		return nil, verbs.ErrClosed
	case e.qp != nil:
		return nil, fmt.Errorf("loopback: create QP: there is one: %w", verbs.ErrInvalid)
	}
	q := &queuePair{end: e, dev: domain.dev, pd: domain, windows: make(map[*window]struct{})}
	if err := domain.CreateQP(&q.QP, q, attr); err != nil {
		return nil, fmt.Errorf("loopback: create QP: %w", err)
	}
	q.sendCQ, q.recvCQ = attr.SendCQ.(*driver.CQ), attr.RecvCQ.(*driver.CQ) // the device has no other kind
	e.qp = q
	return q, nil
}

// State derives the state from the phase of the connection.
func (q *queuePair) State() verbs.QPState {
	q.end.link.mu.Lock()
	defer q.end.link.mu.Unlock()
	return q.state()
}

func (q *queuePair) state() verbs.QPState {
	switch q.end.phase {
	case phaseConnecting:
		return verbs.QPRTR
	case phaseUp:
		return verbs.QPRTS
	case phaseDraining:
		return verbs.QPSQD
	case phaseEnded:
		return verbs.QPErr
	}
	return verbs.QPInit
}

func (q *queuePair) Err() error {
	q.end.link.mu.Lock()
	defer q.end.link.mu.Unlock()
	return q.end.err
}

// Fail ends the connection at once. The peer sees it as aborted.
func (q *queuePair) Fail() { q.fail(driver.ErrFailed) }

// Overflow implements driver.User.
func (q *queuePair) Overflow() { q.fail(driver.ErrOverflow) }

func (q *queuePair) fail(reason error) {
	l := q.end.link
	l.mu.Lock()
	defer l.mu.Unlock()
	q.end.abort(reason)
	l.run()
}

// Close destroys the queue pair and frees the windows bound on it.
func (q *queuePair) Close() error {
	l := q.end.link
	l.mu.Lock()
	defer l.mu.Unlock()
	q.end.abort(errDestroyed)
	q.destroy()
	l.run()
	return nil
}

// destroy frees a queue pair whose connection has ended.
func (q *queuePair) destroy() {
	if q.closed {
		return
	}
	q.closed = true
	for w := range q.windows {
		w.unbind(w.bound.Load())
	}
	q.end.late = ring[lateWC]{}
	q.sq, q.rq = ring[sendEntry]{}, ring[recvEntry]{}
	q.Free()
}
