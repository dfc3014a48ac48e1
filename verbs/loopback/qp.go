package loopback

import (
	"fmt"

	"github.com/rdmad/rdmad/verbs"
)

// queuePair belongs to one end and is guarded by its link's lock.
type queuePair struct {
	end            *end
	dev            *device
	pd             *pd
	num            uint32
	attr           verbs.QPAttr
	sendCQ, recvCQ *cq

	sq       ring[sendEntry]
	started  uint64 // first entry of sq not started
	drain    uint64 // draining: first entry not to be started
	held     int    // slots of completed unsignaled requests, not yet free
	reads    int    // RDMA Reads outstanding
	rq       ring[recvEntry]
	windows  map[*window]struct{} // bound on this queue pair
	overflow bool                 // a CQ did not take a completion
	closed   bool
}

// CreateQP makes the end's queue pair.
func (e *end) CreateQP(p verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	d := e.provider.dev
	domain, okPD := p.(*pd)
	send, okSend := attr.SendCQ.(*cq)
	recv, okRecv := attr.RecvCQ.(*cq)
	if !okPD || !okSend || !okRecv || domain.dev != d || send.dev != d || recv.dev != d {
		return nil, fmt.Errorf("loopback: create QP: PD or CQ of another device: %w", verbs.ErrInvalid)
	}
	if err := checkLimits(attr, d.attr); err != nil {
		return nil, err
	}
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	switch {
	case e.closed:
		return nil, verbs.ErrClosed
	case e.qp != nil:
		return nil, fmt.Errorf("loopback: create QP: there is one: %w", verbs.ErrInvalid)
	}
	q := &queuePair{
		end: e, dev: d, pd: domain, attr: attr, sendCQ: send, recvCQ: recv,
		windows: make(map[*window]struct{}),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if domain.closed || send.closed || recv.closed {
		return nil, verbs.ErrClosed
	}
	d.lastQP++
	q.num = d.lastQP
	d.live.QPs++
	domain.users++
	send.users++
	recv.users++
	e.qp = q
	return q, nil
}

func checkLimits(a verbs.QPAttr, d verbs.DeviceAttr) error {
	within := func(n, limit int) bool { return n >= 0 && n <= limit }
	if within(a.MaxSendWR, d.MaxQPWR) && within(a.MaxRecvWR, d.MaxQPWR) &&
		within(a.MaxSendSGE, d.MaxSGE) && within(a.MaxRecvSGE, d.MaxSGE) {
		return nil
	}
	return fmt.Errorf("loopback: create QP: beyond the device's limits: %w", verbs.ErrInvalid)
}

func (q *queuePair) Num() uint32 { return q.num }

// State follows from where the connection stands.
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

// Fail ends the connection at once; the peer sees it as aborted.
func (q *queuePair) Fail() {
	l := q.end.link
	l.mu.Lock()
	defer l.mu.Unlock()
	q.end.abort(errFailed)
	l.run()
}

// Close destroys the queue pair; windows bound on it become free.
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
	q.sendCQ.drop(q.num)
	q.recvCQ.drop(q.num)
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	q.dev.live.QPs--
	q.pd.users--
	q.sendCQ.users--
	q.recvCQ.users--
}
