package loopback

import (
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// deliver executes a message of the peer at e, with its data in p. It returns false if the
// message has to wait for a Receive. The lock is held.
func (e *end) deliver(m *message, p *payload) bool {
	switch m.kind {
	case msgAccept:
		e.accepted(m)
	case msgReject:
		e.rejected(m)
	case msgFinish:
		e.down(verbs.ErrDisconnected)
	case msgAbort:
		e.aborted(m)
	}
	if !e.up() {
		return true
	}
	switch m.kind {
	case msgSend:
		return e.receiveSend(m, p)
	case msgWrite:
		e.receiveWrite(m, p)
	case msgReadRequest:
		e.receiveReadRequest(m)
	case msgReadResponse:
		e.receiveReadResponse(m, p)
	case msgAck:
		e.qp.sq.at(m.seq).done = true
		e.qp.retire()
	case msgNak:
		e.refused(m.refusal, m.seq)
	}
	return true
}

// receiveSend places a Send in the first posted Receive. It revokes the window that the
// Send names before the Receive completes (RFC 5040 §5.1.2).
func (e *end) receiveSend(m *message, p *payload) bool {
	q := e.qp
	if q.rq.len() == 0 {
		if e.link.fabric.transport == InfiniBand {
			return false
		}
		e.refuse(&noReceive, m.seq)
		return true
	}
	w := q.rq.first()
	if m.n > w.n {
		e.failReceive(w, verbs.WCLocLenErr, &messageTooLong, m.seq)
		return true
	}
	if !acquireAll(w.sgl) {
		e.failReceive(w, verbs.WCLocProtErr, &localFailure, m.seq)
		return true
	}
	if m.inv && !q.dev.Tags.Invalidate(&q.QP, m.key) {
		releaseAll(w.sgl)
		e.refuse(&cannotInvalidate, m.seq)
		return true
	}
	p.scatter(w.sgl, m.n)
	releaseAll(w.sgl)
	wc := verbs.WC{ID: w.id, Op: verbs.WCRecv, ByteLen: m.n, WithInvalidate: m.inv}
	if m.inv {
		wc.Invalidated = m.key
	}
	q.rq.pop()
	q.complete(q.recvCQ, wc)
	e.ack(m.seq)
	return true
}

func (e *end) failReceive(w *recvEntry, s verbs.WCStatus, r *refusal, seq uint64) {
	id := w.id
	e.qp.rq.pop()
	e.qp.complete(e.qp.recvCQ, verbs.WC{ID: id, Status: s})
	e.refuse(r, seq)
}

// receiveWrite places a Write. As on InfiniBand, a message without data is not checked.
func (e *end) receiveWrite(m *message, p *payload) {
	if m.n > 0 {
		r, v := e.qp.dev.Tags.Reach(&e.qp.QP, verbs.AccessRemoteWrite, m.key, m.addr, m.n)
		if v != driver.Allowed {
			e.refuse(&writeRefusals[v], m.seq)
			return
		}
		p.copyTo(r.At(m.addr, m.n))
		r.Unpin()
	}
	e.ack(m.seq)
}

// receiveReadRequest answers with the current content of the memory.
func (e *end) receiveReadRequest(m *message) {
	answer := message{kind: msgReadResponse, n: m.n, seq: m.seq}
	if m.n == 0 {
		e.transmit(answer, nil)
		return
	}
	r, v := e.qp.dev.Tags.Reach(&e.qp.QP, verbs.AccessRemoteRead, m.key, m.addr, m.n)
	if v != driver.Allowed {
		e.refuse(&readRefusals[v], m.seq)
		return
	}
	source := [1]sge{{b: r.At(m.addr, m.n)}}
	e.transmit(answer, source[:])
	r.Unpin()
}

func (e *end) receiveReadResponse(m *message, p *payload) {
	q := e.qp
	w := q.sq.at(m.seq)
	if !acquireAll(w.sgl) {
		w.status = verbs.WCLocProtErr
		e.refuse(&localFailure, m.seq)
		return
	}
	p.scatter(w.sgl, m.n)
	releaseAll(w.sgl)
	q.reads--
	w.done = true
	q.retire()
}

// ack reports to an InfiniBand requester that a request was executed.
func (e *end) ack(seq uint64) {
	if e.link.fabric.transport == InfiniBand && e.up() {
		e.transmit(message{kind: msgAck, seq: seq}, nil)
	}
}

// refuse ends the connection because of the peer's request at seq.
func (e *end) refuse(r *refusal, seq uint64) {
	e.wire.purge()
	e.transmit(message{kind: msgNak, refusal: r, seq: seq}, nil)
	e.down(r.err(e.link.fabric.transport, false))
}

// refused handles a refusal at the requester.
func (e *end) refused(r *refusal, seq uint64) {
	q := e.qp
	if seq >= q.sq.head && seq < q.started {
		if w := q.sq.at(seq); !w.done && w.status == verbs.WCSuccess {
			w.status = r.status
		}
	}
	e.down(r.err(e.link.fabric.transport, true))
}
