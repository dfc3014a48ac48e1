package loopback

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// drainTime limits how long Disconnect waits for the peer to take earlier requests.
const drainTime = 5 * time.Second

// advance starts the requests that can start, in order. It reports whether it did anything.
// The lock is held.
func (e *end) advance() bool {
	did := e.releaseLate()
	q := e.qp
	if q == nil || !e.up() {
		return did
	}
	for e.up() && q.startable() {
		seq := q.started
		q.started++
		e.start(q.sq.at(seq), seq)
		did = true
	}
	if e.phase == phaseDraining {
		did = e.drained() || did
	}
	return did
}

// startable reports whether the next request can start now.
func (q *queuePair) startable() bool {
	last := q.sq.tail
	if q.end.phase == phaseDraining {
		last = q.drain
	}
	if q.started == last {
		return false
	}
	w := q.sq.at(q.started)
	switch {
	case w.fence && q.reads > 0:
		return false
	case w.op == verbs.OpRDMARead:
		// With no Read allowed at all it starts, and then fails.
		return q.ord == 0 || q.reads < q.ord
	}
	return !q.end.wire.full(w.n)
}

// start executes the request at seq, or sends it.
func (e *end) start(w *sendEntry, seq uint64) {
	if s := e.requestFault(w, seq); s != verbs.WCSuccess {
		e.failRequest(w, s, errInjected)
		return
	}
	switch w.op {
	case verbs.OpLocalInvalidate:
		e.endLocal(w, e.qp.dev.Tags.Invalidate(&e.qp.QP, w.key))
	case verbs.OpBindMW:
		e.endLocal(w, w.bind.Execute(&e.qp.QP))
	case verbs.OpRDMARead:
		e.startRead(w, seq)
	default:
		e.startSend(w, seq)
	}
	if e.up() {
		e.qp.retire()
	}
}

// endLocal ends a request without a message.
func (e *end) endLocal(w *sendEntry, ok bool) {
	if !ok {
		e.failRequest(w, verbs.WCMWBindErr, localFailure.err(e.link.fabric.transport, false))
		return
	}
	w.done = true
}

func (e *end) startRead(w *sendEntry, seq uint64) {
	if e.qp.ord == 0 {
		e.failRequest(w, verbs.WCLocQPOpErr, localFailure.err(e.link.fabric.transport, false))
		return
	}
	e.qp.reads++
	e.transmit(message{kind: msgReadRequest, key: w.key, addr: w.addr, n: w.n, seq: seq}, nil)
}

// startSend sends a Send or Write. On iWARP it completes once it has been sent.
func (e *end) startSend(w *sendEntry, seq uint64) {
	if !acquireAll(w.sgl) {
		e.failRequest(w, verbs.WCLocProtErr, localFailure.err(e.link.fabric.transport, false))
		return
	}
	defer releaseAll(w.sgl)
	m := message{kind: msgSend, key: w.key, addr: w.addr, n: w.n, seq: seq}
	switch w.op {
	case verbs.OpRDMAWrite:
		m.kind = msgWrite
	case verbs.OpSendInvalidate:
		m.inv = true
	}
	w.done = e.link.fabric.transport == IWARP
	e.transmit(m, w.sgl)
}

// failRequest completes w with a status and ends the connection.
func (e *end) failRequest(w *sendEntry, s verbs.WCStatus, reason error) {
	w.status = s
	e.abort(reason)
}

// drained ends a draining connection when everything posted before Disconnect is done, or
// the time is up.
func (e *end) drained() bool {
	switch {
	case e.qp.sq.head >= e.qp.drain:
		e.finish()
	case time.Until(e.drainBy) <= 0:
		e.abort(errDrain)
	default:
		return false
	}
	return true
}

// deadline returns when the end must act next.
func (e *end) deadline() time.Time {
	next := e.incoming().deadline()
	if e.phase == phaseDraining {
		next = earliest(next, e.drainBy)
	}
	if e.late.len() > 0 {
		next = earliest(next, e.late.first().due)
	}
	return next
}
