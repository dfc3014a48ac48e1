//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// queuePair is a queue pair. One goroutine ends it (see ending.go). Until then it stands
// for the device's queue pair.
type queuePair struct {
	driver.QP
	deviceNum      C.uint32_t
	id             *connID
	dev            *device
	pd             *protectionDomain
	handle         uint64
	sendCQ, recvCQ *completionQueue
	closed         atomic.Bool
	dying, flushed chan struct{} // closed when the end begins, and when it is complete
	windows        windowSet
	silence        silence

	// The lock guards the following fields, up to the queues.

	c           *C.struct_ibv_qp // valid until the end
	established bool
	calling     chan struct{} // closed when rdma_connect has returned; nil before
	inline      C.uint32_t    // bytes that a request may carry itself; set at creation
	nudgeTimer  *time.Timer   // active side on iWARP, see awaitPeer

	sq sendQueue
	rq recvQueue
}

var _ verbs.QP = (*queuePair)(nil)

func (id *connID) newQP(pd *protectionDomain, attr verbs.QPAttr) (*queuePair, error) {
	q := &queuePair{id: id, dev: pd.dev, pd: pd, dying: make(chan struct{}), flushed: make(chan struct{})}
	if err := pd.CreateQP(&q.QP, q, attr); err != nil {
		return nil, fmt.Errorf("rdmacore: %w", err)
	}
	q.sendCQ, q.recvCQ = attr.SendCQ.(*completionQueue), attr.RecvCQ.(*completionQueue) // the device makes no other type
	q.sq.init(attr.MaxSendWR, max(attr.MaxSendSGE, leastSendSGE))
	q.rq.init(attr.MaxRecvWR, attr.MaxRecvSGE)
	if err := q.create(); err != nil {
		q.Free()
		return nil, err
	}
	return q, nil
}

// leastSendSGE leaves room for splitShort.
const leastSendSGE = 2

// create creates the device's queue pair, which then accepts Receives.
func (q *queuePair) create() error {
	q.Lock() // a goroutine that finds it by its handle, such as deviceGone, waits until it is complete
	defer q.Unlock()
	q.handle = handles.add(q)
	if err := q.createLocked(); err != nil {
		handles.remove(q.handle)
		q.FailLocked(err) // that goroutine must not end it
		return err
	}
	q.rq.open = true
	return nil
}

func (q *queuePair) createLocked() error {
	if rc := q.createWithInline(); rc != 0 {
		return failed("create queue pair", rc)
	}
	if rc := command(func() C.int { return C.rdmad_qp_init(q.id.c, q.c) }); rc != 0 {
		command(func() C.int { return C.ibv_destroy_qp(q.c) })
		return failed("prepare queue pair", rc)
	}
	q.deviceNum = q.c.qp_num
	return nil
}

// mostInline and leastInline bound the inline data that queue pairs ask for, in bytes. Most
// replies without RDMA Writes have fewer than 256. siw takes 80.
const mostInline, leastInline = 256, 64

// createWithInline creates the device's queue pair with as much inline data as the device
// takes.
func (q *queuePair) createWithInline() C.int {
	return tryInline(&q.dev.inline, C.ENOMEM, func(ask uint32) C.int {
		q.inline = C.uint32_t(ask)
		return command(func() C.int {
			return C.rdmad_create_qp(q.pd.c, q.sendCQ.c, q.recvCQ.c, C.uint64_t(q.handle),
				C.uint32_t(q.Attr.MaxSendWR+spareSends), C.uint32_t(max(q.Attr.MaxRecvWR, 1)),
				C.uint32_t(max(q.Attr.MaxSendSGE, leastSendSGE)), C.uint32_t(max(q.Attr.MaxRecvSGE, 1)), &q.inline, &q.c)
		})
	})
}

// tryInline calls create with less and less inline data until it succeeds. No attribute of a
// device says how much it takes, so that is tried once for a device, and most has the result.
// After a lack of memory, which may pass, most stays as it was.
func tryInline[E comparable](most *atomic.Uint32, lack E, create func(ask uint32) E) (rc E) {
	var success E
	lacked := false
	for ask := most.Load(); ; ask /= 2 {
		if ask < leastInline {
			ask = 0
		}
		rc = create(ask)
		if rc == success && !lacked {
			most.Store(ask)
		}
		if rc == success || ask == 0 {
			return rc
		}
		lacked = lacked || rc == lack
	}
}

// lend keeps the device's queue pair, whose number rdma_connect gets, until calling is closed.
// Otherwise siw would connect another queue pair that has the number by then. It returns false
// when the queue pair has failed already.
func (q *queuePair) lend(calling chan struct{}) bool {
	q.Lock()
	defer q.Unlock()
	if q.StateLocked() == verbs.QPErr {
		return false
	}
	q.calling = calling
	return true
}

// ready makes the queue pair ready to send. iWARP does not need it. The end, which may come
// at any time, waits for it.
func (q *queuePair) ready(p *C.struct_rdmad_param) error {
	q.Lock()
	defer q.Unlock()
	if q.StateLocked() == verbs.QPErr {
		return q.CauseLocked()
	}
	return failed("connect queue pair", command(func() C.int { return C.rdmad_qp_connect(q.id.c, q.c, p) }))
}

// establish opens the send queue, because the connection is established. It returns false
// when the queue pair has failed already.
func (q *queuePair) establish() bool {
	q.Lock()
	defer q.Unlock()
	if q.StateLocked() == verbs.QPErr {
		return false
	}
	if !q.established {
		q.ReadyLocked()
		q.established = true
		q.sq.enter(sendOpen)
	}
	return true
}

// confirm reports to the connection manager that the peer is sending. The peer's message
// that it is ready, for which Accept waits, was late or lost (InfiniBand specification
// 11.6.3.1, "communication established").
func (q *queuePair) confirm() {
	q.Lock()
	defer q.Unlock()
	if q.StateLocked() != verbs.QPErr && !q.established {
		command(func() C.int { return C.rdmad_confirm(q.id.c) }) // fails when the connection manager knows already
	}
}

// Fail implements verbs.QP.
func (q *queuePair) Fail() { q.fail(driver.ErrFailed) }

// Overflow implements driver.User.
func (q *queuePair) Overflow() { q.fail(driver.ErrOverflow) }

// End implements driver.QueuePair.
func (q *queuePair) End(cause error) { q.fail(cause) }

// Close implements verbs.QP.
func (q *queuePair) Close() error {
	q.fail(verbs.ErrDisconnected)
	<-q.flushed
	if q.closed.Swap(true) {
		return nil
	}
	q.Free()
	return nil
}
