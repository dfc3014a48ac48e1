//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "github.com/rdmad/rdmad/verbs"

// completed processes one completion of the device. The caller holds the lock of its CQ.
func (q *queuePair) completed(w *C.struct_rdmad_wc) {
	pos, status := uint32(w.wr_id), verbs.WCStatus(w.status)
	if pos&recvBit != 0 {
		if status == verbs.WCLocQPOpErr && q.dev.is(vendorRXE) {
			status = verbs.WCLocLenErr // rxe reports this for a message longer than the Receive
		}
		q.received(pos&positionMask, status, w)
	} else {
		q.sent(pos, status, int(w.byte_len))
	}
	switch {
	case status == verbs.WCSuccess:
	case status != verbs.WCWRFlushErr:
		if status == verbs.WCLocQPOpErr && q.dev.is(vendorRXE) {
			q.dev.doubt() // packets have no path to the peer: see path.go
		}
		q.fail(errOfStatus(status))
	case q.dev.iwarp() && !q.sq.reading():
		// The peer has ended the connection, and the connection manager is about to report
		// that. A consumer that sees the flush must see this reason.
		q.fail(verbs.ErrDisconnected)
	}
}

func (q *queuePair) sent(pos uint32, status verbs.WCStatus, byteLen int) {
	s := &q.sq
	s.mu.Lock()
	s.complete(pos, status, byteLen)
	q.releaseSendsLocked(false)
	s.mu.Unlock()
}

// releaseSendsLocked queues the completions that are due in order, or all of them. The
// caller holds the locks of the send CQ and the send queue.
func (q *queuePair) releaseSendsLocked(all bool) {
	for {
		q.revokeDone()
		wc := verbs.WC{QPNum: q.Num()}
		pos := q.sq.head
		more, report := q.sq.release(&wc, all)
		if !more {
			return
		}
		if e := q.sq.at(pos); e.op == verbs.OpBindMW || e.op == verbs.OpLocalInvalidate {
			q.windows.done(e.op, e.key, wc.Status)
		}
		if report {
			q.sendCQ.Queue.Push(&wc)
		}
	}
}

func (q *queuePair) received(pos uint32, status verbs.WCStatus, w *C.struct_rdmad_wc) {
	r := &q.rq
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.waiting(pos) {
		return
	}
	if r.failed {
		status = verbs.WCWRFlushErr
	}
	wc := verbs.WC{ID: *r.at(r.head), Status: status, Op: verbs.WCRecv, QPNum: q.Num()}
	r.head++
	if status == verbs.WCSuccess {
		wc.ByteLen = int(w.byte_len)
		if w.with_inv != 0 {
			wc.WithInvalidate, wc.Invalidated = true, uint32(w.invalidated)
			q.windows.drop(uint32(w.invalidated))
		}
	}
	r.failed = r.failed || status != verbs.WCSuccess
	q.recvCQ.Queue.Push(&wc)
}

// flushReceivesLocked completes the remaining Receives as flushed. The caller holds the
// lock of the receive CQ.
func (q *queuePair) flushReceivesLocked() {
	r := &q.rq
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.head != r.tail {
		q.recvCQ.Queue.Push(&verbs.WC{ID: *r.at(r.head), Status: verbs.WCWRFlushErr, Op: verbs.WCRecv, QPNum: q.Num()})
		r.head++
	}
}
