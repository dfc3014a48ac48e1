package driver

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// QP is a queue pair: its attributes, and its state, guarded by the lock.
type QP struct {
	Attr verbs.QPAttr

	num        uint32
	pd         *PD
	send, recv *CQBase

	mu    sync.Mutex
	state verbs.QPState
	cause error // set with QPErr

	winMu   sync.Mutex
	windows *SoftMW // bound on this queue pair
}

// CreateQP makes q, which self embeds, a queue pair of the domain. Its number is new on the
// device. If the provider then fails to create it, it calls Free.
func (pd *PD) CreateQP(q *QP, self User, attr verbs.QPAttr) error {
	send, ok1 := attr.SendCQ.(interface{ base() *CQBase })
	recv, ok2 := attr.RecvCQ.(interface{ base() *CQBase })
	if !ok1 || !ok2 || send.base().dev != pd.dev || recv.base().dev != pd.dev {
		return Invalid("completion queue of another device")
	}
	if err := checkQP(&attr, &pd.dev.Attrs); err != nil {
		return err
	}
	if err := pd.use(QPs); err != nil {
		return err
	}
	q.num, q.pd, q.Attr = pd.dev.lastQP.Add(1), pd, attr
	err := q.attach(send.base(), recv.base(), self)
	if err != nil {
		pd.unuse(QPs)
	}
	return err
}

func checkQP(a *verbs.QPAttr, d *verbs.DeviceAttr) error {
	for _, limit := range [...]struct{ v, most int }{
		{a.MaxSendWR, d.MaxQPWR}, {a.MaxRecvWR, d.MaxQPWR}, {a.MaxSendSGE, d.MaxSGE}, {a.MaxRecvSGE, d.MaxSGE},
	} {
		if limit.v < 0 || limit.v > limit.most {
			return Invalid("queue pair beyond the device's limits")
		}
	}
	return nil
}

func (q *QP) attach(send, recv *CQBase, self User) error {
	q.send, q.recv = send, recv
	if err := send.attach(self); err != nil {
		return err
	}
	err := recv.attach(self)
	if err != nil {
		send.detach(q.num)
	}
	return err
}

// Free uncounts a destroyed queue pair and drops its completions.
func (q *QP) Free() {
	q.send.detach(q.num)
	q.recv.detach(q.num)
	q.pd.unuse(QPs)
}

// Num implements verbs.QP.
func (q *QP) Num() uint32 { return q.num }

// Lock locks the queue pair.
func (q *QP) Lock() { q.mu.Lock() }

// Unlock unlocks the queue pair.
func (q *QP) Unlock() { q.mu.Unlock() }

// State implements verbs.QP.
func (q *QP) State() verbs.QPState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// Err implements verbs.QP.
func (q *QP) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cause
}

// StateLocked returns the state.
func (q *QP) StateLocked() verbs.QPState { return q.state }

// CauseLocked returns why the queue pair is in QPErr.
func (q *QP) CauseLocked() error { return q.cause }

// ReadyLocked moves the queue pair into QPRTS. It returns false if it has failed.
func (q *QP) ReadyLocked() bool {
	if q.state == verbs.QPErr {
		return false
	}
	q.state = verbs.QPRTS
	return true
}

// FailLocked moves the queue pair into QPErr. It returns false, and drops the cause, if the
// queue pair is there already.
func (q *QP) FailLocked(cause error) bool {
	if q.state == verbs.QPErr {
		return false
	}
	q.state, q.cause = verbs.QPErr, cause
	return true
}

// DrainLocked moves a connected queue pair into QPSQD. It returns false if there is nothing
// left to drain.
func (q *QP) DrainLocked() (bool, error) {
	switch q.state {
	case verbs.QPRTS:
		q.state = verbs.QPSQD
		return true, nil
	case verbs.QPSQD, verbs.QPErr:
		return false, nil
	}
	return false, verbs.ErrQPState
}
