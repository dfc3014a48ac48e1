package loopback

import (
	"time"

	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// kind is the kind of a message.
type kind uint8

const (
	msgSend kind = iota
	msgWrite
	msgReadRequest
	msgReadResponse
	msgAck       // InfiniBand: a request was executed
	msgNak       // a request was refused (Terminate, NAK); the connection ends
	msgAccept    // connection manager: accepted
	msgReject    // rejected
	msgFinish    // orderly end
	msgAbort     // any other end
	firstControl = msgAck
)

// message is a message between two ends.
type message struct {
	kind kind
	inv  bool // msgSend: with invalidate
	key  uint32
	addr uint64
	n    int    // bytes of data, or requested
	seq  uint64 // of the request, or of the answered request
	data []byte // owned by the message; used when it has to wait

	refusal *refusal         // msgNak
	reason  error            // msgAbort
	param   rdmacm.ConnParam // msgAccept, msgReject
	ird     int              // msgAccept: as negotiated, from the receiver's view
	ord     int

	due time.Time // delivered not before this time, and not before earlier messages
	no  uint64    // position among all messages of the wire
}

// A wire accepts no new requests beyond these limits. They stay in their send queue until
// others have arrived.
const (
	wireMessages = 4096
	wireBytes    = 64 << 20
)

// wire holds the messages on their way in one direction. Requests and answers have separate
// queues, because answers continue while a request waits for a Receive.
type wire struct {
	requests, answers ring[message]
	bytes             int // of requests
	no                uint64
	stalled           bool // the first request waits for a Receive
}

func (w *wire) full(n int) bool {
	return w.requests.len() >= wireMessages || w.bytes > 0 && w.bytes+n > wireBytes
}

// isAnswer reports whether a message never waits for a Receive and can overtake requests.
// Messages that end a connection cannot: they come after everything sent before them.
func (m *message) isAnswer() bool {
	return m.kind == msgReadResponse || m.kind == msgAck || m.kind == msgNak
}

// transmit sends m with the bytes of src (the caller acquires its regions, and releases
// them after the call). The message is executed at once if nothing is before it and there
// is no delay.
func (e *end) transmit(m message, src []sge) {
	if m.kind < firstControl && !e.countMessage() {
		return
	}
	w := e.wire
	delay := e.link.fabric.Delay()
	clear := w.answers.len() == 0 && (w.requests.len() == 0 || w.stalled && m.isAnswer())
	if delay == 0 && clear {
		p := payload{sgl: src}
		if e.peer.deliver(&m, &p) {
			return
		}
		w.stalled = true
	} else {
		m.due = time.Now().Add(delay)
	}
	m.data = gather(src, m.n)
	m.no = w.no
	w.no++
	if m.isAnswer() {
		*w.answers.push() = m
		return
	}
	w.bytes += len(m.data)
	*w.requests.push() = m
}

// countMessage counts a message for Faults.DropAfter. It returns false if the connection
// was dropped.
func (e *end) countMessage() bool {
	limit := e.link.fabric.faults.Load().DropAfter
	e.link.sent++
	if limit == 0 || e.link.sent <= limit {
		return true
	}
	e.abort(errDropped)
	return false
}

// next returns the queue of the next message to arrive, or nil. Answers pass a stalled
// request.
func (w *wire) next() *ring[message] {
	r, a := &w.requests, &w.answers
	switch {
	case a.len() == 0 && (r.len() == 0 || w.stalled):
		return nil
	case a.len() == 0:
		return r
	case r.len() == 0 || w.stalled:
		return a
	case a.first().no < r.first().no:
		return a
	}
	return r
}

// arrive delivers to e all messages that are due. It reports whether there were any.
func (e *end) arrive() bool {
	w := e.incoming()
	if !e.up() || e.qp.rq.len() > 0 { // the first request need not wait any more
		w.stalled = false
	}
	done := false
	for q := w.next(); q != nil; q = w.next() {
		m := *q.first()
		if !m.due.IsZero() && time.Until(m.due) > 0 {
			break
		}
		p := payload{data: m.data}
		if !e.deliver(&m, &p) {
			w.stalled = true
			continue
		}
		if q == &w.requests {
			w.bytes -= len(m.data)
		}
		*q.first() = message{}
		q.pop()
		done = true
	}
	return done
}

func (e *end) incoming() *wire {
	if e == e.link.ends[0] {
		return &e.link.wires[1]
	}
	return &e.link.wires[0]
}

// purge drops the waiting requests if they wait for a Receive, so that the end of the
// connection need not wait.
func (w *wire) purge() {
	if w.stalled {
		w.requests, w.bytes, w.stalled = ring[message]{}, 0, false
	}
}

// deadline returns when arrive must act next.
func (w *wire) deadline() time.Time {
	if q := w.next(); q != nil {
		return q.first().due
	}
	return time.Time{}
}
