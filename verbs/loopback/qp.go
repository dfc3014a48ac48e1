package loopback

import (
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// queuePair belongs to one end. Its link's lock guards it. The state that it shows follows the
// phase of its end.
type queuePair struct {
	driver.QP
	end            *end
	dev            *driver.SoftDevice
	pd             *driver.SoftPD
	sendCQ, recvCQ *driver.CQ

	sq      ring[sendEntry]
	started uint64 // first entry of sq not started
	drain   uint64 // while draining: first entry that does not start
	held    int    // slots of completed unsignaled requests that are still in use
	reads   int    // RDMA Reads outstanding
	ord     int    // as negotiated
	rq      ring[recvEntry]
	closed  bool
}

// CreateQP implements rdmacm.ID.
func (e *end) CreateQP(p verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	domain, err := e.provider.dev.Own(p)
	if err != nil {
		return nil, fmt.Errorf("loopback: create QP: %w", err)
	}
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.AddQP(func() (*queuePair, error) {
		q := &queuePair{end: e, dev: e.provider.dev, pd: domain}
		if err := domain.CreateQP(&q.QP, q, attr); err != nil {
			return nil, fmt.Errorf("loopback: create QP: %w", err)
		}
		q.sendCQ, q.recvCQ = attr.SendCQ.(*driver.CQ), attr.RecvCQ.(*driver.CQ) // the device has no other kind
		e.qp = q
		if e.phase == phaseEnded { // the peer has given up
			q.fail(verbs.ErrDisconnected)
		}
		return q, nil
	})
}

// Fail ends the connection at once. The peer sees it as aborted.
func (q *queuePair) Fail() { q.End(driver.ErrFailed) }

// Overflow implements driver.User.
func (q *queuePair) Overflow() { q.End(driver.ErrOverflow) }

// End implements driver.QueuePair.
func (q *queuePair) End(cause error) {
	l := q.end.link
	l.mu.Lock()
	defer l.mu.Unlock()
	q.end.abort(cause)
	l.run()
}

// fail moves the queue pair into the error state. The link's lock is held.
func (q *queuePair) fail(cause error) {
	q.Lock()
	defer q.Unlock()
	q.FailLocked(cause)
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
	q.UnbindWindows()
	q.end.late = ring[lateWC]{}
	q.sq, q.rq = ring[sendEntry]{}, ring[recvEntry]{}
	q.Free()
}
