//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// queuePair is a queue pair. Its end is the work of one goroutine (see
// ending.go); until that is done it stands in for the device's.
type queuePair struct {
	num            uint32
	deviceNum      C.uint32_t
	id             *connID
	dev            *device
	pd             *protectionDomain
	handle         uint64
	sendCQ, recvCQ *completionQueue
	attr           verbs.QPAttr
	closed         atomic.Bool
	dying, flushed chan struct{} // closed when the end begins, and is done
	windows        windowSet
	silence        silence

	mu          sync.Mutex
	c           *C.struct_ibv_qp // until the end
	state       verbs.QPState
	established bool
	cause       error       // set with QPErr
	nudgeTimer  *time.Timer // active side on iWARP, see awaitPeer

	sq sendQueue
	rq recvQueue
}

var _ verbs.QP = (*queuePair)(nil)

// lastQP counts queue pairs. A device may give a number again as soon as its
// queue pair is gone, while completions of the old one are still to be polled.
var lastQP atomic.Uint32

func (id *connID) newQP(pd *protectionDomain, attr verbs.QPAttr) (*queuePair, error) {
	q := &queuePair{id: id, dev: pd.dev, pd: pd, attr: attr, dying: make(chan struct{}), flushed: make(chan struct{}), num: lastQP.Add(1)}
	var ok1, ok2 bool
	q.sendCQ, ok1 = attr.SendCQ.(*completionQueue)
	q.recvCQ, ok2 = attr.RecvCQ.(*completionQueue)
	if !ok1 || !ok2 || q.sendCQ.dev != pd.dev || q.recvCQ.dev != pd.dev {
		return nil, invalid("completion queue of another device")
	}
	a := &pd.dev.attr
	for _, limit := range [...]struct{ v, most int }{
		{attr.MaxSendWR, a.MaxQPWR}, {attr.MaxRecvWR, a.MaxQPWR}, {attr.MaxSendSGE, a.MaxSGE}, {attr.MaxRecvSGE, a.MaxSGE},
	} {
		if limit.v < 0 || limit.v > limit.most {
			return nil, invalid("queue pair beyond the device's limits")
		}
	}
	if err := pd.use(); err != nil {
		return nil, err
	}
	if err := q.attachCQs(); err != nil {
		pd.unuse()
		return nil, err
	}
	q.sq.init(attr.MaxSendWR, max(attr.MaxSendSGE, leastSendSGE))
	q.rq.init(attr.MaxRecvWR, attr.MaxRecvSGE)
	if err := q.create(); err != nil {
		q.detachCQs()
		pd.unuse()
		return nil, err
	}
	q.rq.open = true
	pd.dev.live.qps.Add(1)
	return q, nil
}

// leastSendSGE leaves room for splitShort.
const leastSendSGE = 2

// create makes the device's queue pair, ready for Receives.
func (q *queuePair) create() error {
	q.handle = handles.add(q)
	rc := command(func() C.int {
		return C.rdmad_create_qp(q.pd.c, q.sendCQ.c, q.recvCQ.c, C.uint64_t(q.handle),
			C.uint32_t(q.attr.MaxSendWR+spareSends), C.uint32_t(max(q.attr.MaxRecvWR, 1)),
			C.uint32_t(max(q.attr.MaxSendSGE, leastSendSGE)), C.uint32_t(max(q.attr.MaxRecvSGE, 1)), &q.c)
	})
	if rc != 0 {
		handles.remove(q.handle)
		return failed("create queue pair", rc)
	}
	if rc = command(func() C.int { return C.rdmad_qp_init(q.id.c, q.c) }); rc != 0 {
		handles.remove(q.handle)
		command(func() C.int { return C.ibv_destroy_qp(q.c) })
		return failed("prepare queue pair", rc)
	}
	q.deviceNum = q.c.qp_num
	return nil
}

// ready makes the queue pair ready to send, elsewhere than on iWARP. The end,
// which may come at any time, waits for it.
func (q *queuePair) ready(p *C.struct_rdmad_param) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == verbs.QPErr {
		return q.cause
	}
	return failed("connect queue pair", command(func() C.int { return C.rdmad_qp_connect(q.id.c, q.c, p) }))
}

func (q *queuePair) attachCQs() error {
	if err := q.sendCQ.attach(q); err != nil {
		return err
	}
	if err := q.recvCQ.attach(q); err != nil {
		q.sendCQ.detach(q)
		return err
	}
	return nil
}

func (q *queuePair) detachCQs() {
	q.sendCQ.detach(q)
	q.recvCQ.detach(q)
}

// Num implements verbs.QP. It is not the device's number, see lastQP.
func (q *queuePair) Num() uint32 { return q.num }

func (q *queuePair) State() verbs.QPState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

func (q *queuePair) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cause
}

// establish opens the send queue: the connection is up. False when the queue
// pair is dead already.
func (q *queuePair) establish() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == verbs.QPErr {
		return false
	}
	if !q.established {
		q.state, q.established = verbs.QPRTS, true
		q.sq.mu.Lock()
		q.sq.phase = sendOpen
		q.sq.mu.Unlock()
	}
	return true
}

// confirm tells the connection manager that the peer is sending: its word that it is
// ready, without which Accept waits, was late or lost (InfiniBand specification
// 11.6.3.1, "communication established").
func (q *queuePair) confirm() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != verbs.QPErr && !q.established {
		command(func() C.int { return C.rdmad_confirm(q.id.c) }) // fails when it knows
	}
}

// Fail implements verbs.QP.
func (q *queuePair) Fail() { q.fail(errFailed) }

// Close implements verbs.QP.
func (q *queuePair) Close() error {
	q.fail(verbs.ErrDisconnected)
	<-q.flushed
	if q.closed.Swap(true) {
		return nil
	}
	q.detachCQs()
	q.pd.unuse()
	q.dev.live.qps.Add(-1)
	return nil
}
