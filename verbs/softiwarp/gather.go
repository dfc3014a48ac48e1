package softiwarp

import (
	"errors"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

var (
	errBindFailed       = errors.New("memory window is bound already")
	errInvalidateFailed = errors.New("local invalidate of a key that is not bound here")
)

// gather fills the batch. It alternates between messages of the send queue, up to
// sendEnd, and Read Responses, up to responseEnd. A message that has begun is finished
// first, because tagged messages must not interleave.
func (t *transmitter) gather(sendEnd, responseEnd uint32) {
	for more := true; more && t.fault.cause == nil; {
		response := t.rpos != responseEnd
		switch {
		case t.inResponse, response && !t.inSend && (t.responseTurn || !t.sendReady(sendEnd)):
			more = t.response()
		case t.sendReady(sendEnd):
			more = t.request()
		default:
			more = false
		}
	}
}

// inPlace reports whether a payload of n bytes in r is sent without a copy.
func (t *transmitter) inPlace(n int, r *driver.Region) bool {
	return n > copyLimit && (!t.q.crc || !r.Exposed)
}

// response adds one segment of the current Read Response. It returns false when the
// batch is full or the response is impossible.
func (t *transmitter) response() bool {
	q := t.q
	r := q.inbound.at(t.rpos)
	n := min(int(r.Size)-t.roff, q.maxULPDU-ddp.TaggedSize)
	src, reg, v := t.source(r, n)
	if v != driver.Allowed {
		t.fault = refusedRead(v, r)
		return false
	}
	inPlace := reg != nil && t.inPlace(n, reg)
	if !t.batch.room(ddp.TaggedSize, n, inPlace) {
		if reg != nil {
			reg.Unpin()
		}
		return false
	}
	h := ddp.Header{
		Tagged: true,
		Last:   t.roff+n == int(r.Size),
		ULP:    rdmap.Control(rdmap.ReadResponse),
		STag:   r.SinkSTag,
		TO:     r.SinkTO + uint64(t.roff),
	}
	t.batch.begin(&h, n)
	switch {
	case inPlace:
		t.batch.refer(src)
		t.batch.pin(reg)
	case reg != nil:
		t.batch.copyIn(src)
		reg.Unpin()
	}
	t.batch.end(ddp.TaggedSize + n)
	t.roff += n
	t.inResponse = !h.Last
	if h.Last {
		t.roff = 0
		t.rpos++
		t.responseTurn = false
		// Store this before the bytes are sent: the peer may send its next Request at once.
		q.inbound.head.Store(t.rpos)
	}
	return true
}

// source finds and pins the memory of the response's next n bytes. It checks the access
// again, because rights may have ended since the Request arrived.
func (t *transmitter) source(r *inboundRead, n int) ([]byte, *driver.Region, driver.Verdict) {
	if n == 0 {
		return nil, nil, driver.Allowed
	}
	to := r.SrcTO + uint64(t.roff)
	reg, v := t.q.dev.Tags.Reach(&t.q.QP, verbs.AccessRemoteRead, r.SrcSTag, to, n)
	if v != driver.Allowed {
		return nil, nil, v
	}
	return reg.At(to, n), reg, v
}

// request adds one segment of the send queue's current request, or executes a local
// request. It returns false when the batch is full or must be sent first.
func (t *transmitter) request() bool {
	e := t.q.sq.at(t.pos)
	switch e.op {
	case verbs.OpRDMARead:
		return t.readRequest(e)
	case verbs.OpBindMW:
		if t.batch.npins > 0 {
			return false // as for localInvalidate: the reader may wait for the pins, with the window
		}
		if !e.bind.Execute(&t.q.QP) {
			t.blame(errBindFailed)
			return false
		}
		e.done = true
		t.advance()
		return true
	case verbs.OpLocalInvalidate:
		return t.localInvalidate(e)
	}
	return t.segment(e)
}

func (t *transmitter) localInvalidate(e *sendEntry) bool {
	if t.batch.npins > 0 {
		// The batch may have pinned the window. Revoking it would wait for this goroutine.
		return false
	}
	if !t.q.dev.Tags.Invalidate(&t.q.QP, e.inv) {
		t.blame(errInvalidateFailed)
		return false
	}
	e.done = true
	t.advance()
	return true
}

// blame ends the connection and attributes the end to the current request.
func (t *transmitter) blame(cause error) {
	t.fault = txFault{
		cause:   cause,
		goodbye: &rdmap.Term{Fault: rdmap.LocalCatastrophic},
		blame:   true,
		status:  verbs.WCMWBindErr,
	}
}

func (t *transmitter) readRequest(e *sendEntry) bool {
	if !t.batch.room(ddp.UntaggedSize, rdmap.ReadRequestSize, false) {
		return false
	}
	h := ddp.Header{Last: true, ULP: rdmap.Control(rdmap.ReadRequest), QN: ddp.QueueReadRequest, MSN: e.msn}
	r := rdmap.Read{SinkSTag: e.sinkSTag, Size: uint32(e.length), SrcSTag: e.rkey, SrcTO: e.raddr}
	t.batch.begin(&h, rdmap.ReadRequestSize)
	var payload [rdmap.ReadRequestSize]byte
	t.batch.copyIn(r.Append(payload[:0]))
	t.batch.end(ddp.UntaggedSize + rdmap.ReadRequestSize)
	// Count before the bytes are sent: the response may arrive at once.
	t.q.readsSent.Add(1)
	t.advance()
	return true
}

// segment adds one segment of a Send or Write.
func (t *transmitter) segment(e *sendEntry) bool {
	h := t.header(e)
	n := min(e.length-t.off, t.q.maxULPDU-h.Size())
	if !t.batch.room(h.Size(), n, n > copyLimit) {
		return false
	}
	h.Last = t.off+n == e.length
	t.batch.begin(&h, n)
	t.payload(e, n)
	t.batch.end(h.Size() + n)
	t.off += n
	t.inSend = true
	if h.Last {
		t.advance()
	}
	return true
}

// header returns the header of e's next segment, without the Last flag.
func (t *transmitter) header(e *sendEntry) ddp.Header {
	if e.op == verbs.OpRDMAWrite {
		return ddp.Header{
			Tagged: true, ULP: rdmap.Control(rdmap.Write),
			STag: e.rkey, TO: e.raddr + uint64(t.off),
		}
	}
	invalidate := e.op == verbs.OpSendInvalidate
	h := ddp.Header{
		ULP: rdmap.Control(rdmap.SendOpcode(invalidate, e.flags&verbs.SendSolicited != 0)),
		QN:  ddp.QueueSend, MSN: e.msn, MO: uint32(t.off),
	}
	if invalidate {
		h.ULP2 = e.inv
	}
	return h
}

// payload adds the next n bytes of e's pieces.
func (t *transmitter) payload(e *sendEntry, n int) {
	for n > 0 {
		piece := &e.pieces[t.piece]
		p := piece.b[t.pieceOff:]
		p = p[:min(n, len(p))]
		if t.inPlace(len(p), &piece.mr.Region) && t.batch.vectorRoom() {
			t.batch.refer(p)
		} else {
			t.batch.copyIn(p)
		}
		n -= len(p)
		t.pieceOff += len(p)
		if t.pieceOff == len(piece.b) {
			t.piece++
			t.pieceOff = 0
		}
	}
}

// advance moves to the next request of the send queue.
func (t *transmitter) advance() {
	t.pos++
	t.off, t.piece, t.pieceOff = 0, 0, 0
	t.inSend = false
	t.responseTurn = true
}
