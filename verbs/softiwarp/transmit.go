package softiwarp

import (
	"fmt"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// The number of batches that a posting or receiving goroutine sends before a writer
// goroutine takes over. A reply with 1 MiB of data takes eight.
const (
	postQuanta    = 12
	receiveQuanta = 3
)

// transmitter is the sending side of a connection. It belongs to the owner of transmission,
// the goroutine that has set queuePair.txBusy.
type transmitter struct {
	q *queuePair

	batch batch
	sock  socketWriter
	run   func() // the body of a writer goroutine

	// The send-queue message being sent, and the position in it.
	pos      uint32
	off      int // bytes of it sent so far
	piece    int // pieces and bytes of a piece sent so far
	pieceOff int
	inSend   bool // the message has begun

	// The same for the Read Response being sent.
	rpos       uint32
	roff       int
	inResponse bool

	responseTurn bool // Requests and responses alternate, message by message

	fault txFault
}

// txFault is the reason why sending can't continue. With blame set, the send-queue request
// at pos caused it.
type txFault struct {
	cause   error
	goodbye *rdmap.Term
	blame   bool
	status  verbs.WCStatus
}

func (t *transmitter) init(q *queuePair) {
	t.q = q
	t.batch.init(&q.dev.buffers)
	t.sock.init(&q.dev.buffers)
	t.run = q.writeAll
}

// kickLocked sends what is ready, unless another goroutine is sending already. After
// quanta batches a writer goroutine takes over.
func (q *queuePair) kickLocked(quanta int) {
	if q.txBusy || !q.workLocked() {
		return
	}
	q.txBusy = true
	for q.workLocked() {
		if quanta == 0 || len(q.tx.sock.pending()) > 0 {
			go q.tx.run()
			return
		}
		quanta--
		q.quantumLocked(false)
	}
	q.releaseLocked()
}

// writeAll is the body of the writer goroutine. It owns transmission until nothing is left
// to send, and waits while the socket is full.
func (q *queuePair) writeAll() {
	q.Lock()
	defer q.Unlock()
	for q.workLocked() {
		q.quantumLocked(true)
	}
	q.releaseLocked()
}

func (q *queuePair) releaseLocked() {
	q.txBusy = false
	q.drainedLocked()
	q.finishLocked()
}

// workLocked reports whether anything can be sent now.
func (q *queuePair) workLocked() bool {
	if (q.StateLocked() != verbs.QPRTS && q.StateLocked() != verbs.QPSQD) || q.txErr != nil || q.hold {
		return false
	}
	return len(q.tx.sock.pending()) > 0 || q.tx.inResponse || !q.inbound.empty() || q.tx.sendReady(q.sendEndLocked())
}

func (q *queuePair) sendEndLocked() uint32 {
	if q.StateLocked() == verbs.QPSQD {
		return q.sq.limit
	}
	return q.sq.tail
}

// quantumLocked sends one batch. It releases the lock meanwhile: the owner of transmission
// owns the requests between the cursors and the ends read here.
func (q *queuePair) quantumLocked(wait bool) {
	t := &q.tx
	sendEnd, responseEnd := q.sendEndLocked(), q.inbound.tail
	q.Unlock()
	if len(t.sock.pending()) == 0 {
		t.gather(sendEnd, responseEnd)
		t.sock.send(q.raw, &t.batch)
	}
	if wait {
		t.sock.wait(q.raw)
	}
	q.Lock()
	q.commitLocked()
}

// commitLocked accounts for the requests of a batch. TCP has their bytes, or socketWriter
// has copied them, so the consumer may reuse its memory.
func (q *queuePair) commitLocked() {
	t := &q.tx
	if t.sock.err != nil {
		q.sendFailedLocked(t.sock.err)
		return
	}
	for s := &q.sq; s.tx != t.pos; s.tx++ {
		if e := s.at(s.tx); e.op != verbs.OpRDMARead {
			e.done = true
		}
	}
	if q.retireLocked() {
		q.sendCQ.Wake()
	}
	if f := &t.fault; f.cause != nil {
		if f.blame {
			q.blameLocked(t.pos, f.status)
		}
		q.failLocked(f.cause, f.goodbye)
	}
}

// sendFailedLocked records that the socket failed.
func (q *queuePair) sendFailedLocked(err error) {
	switch {
	case q.StateLocked() != verbs.QPErr:
		q.txErr = fmt.Errorf("softiwarp: send: %w", err)
		// The peer may have sent a Terminate, which has the reason. The reader gets some
		// time to find it.
		q.readTill = time.Now().Add(lingerTimeout)
		q.interrupt()
		if q.reading.Take() {
			go q.receive()
		}
	case !isTimeout(err):
		q.txErr = err
	default:
		// failLocked ends waits with a deadline. The stream is at the end of an FPDU,
		// or the rest of the FPDU is kept.
	}
}

// outstanding returns the number of Reads sent and not answered in full.
func (q *queuePair) outstanding() int {
	return int(int32(q.readsSent.Load() - q.readsDone.Load()))
}

// sendReady reports whether the send queue has something that may be sent now. A fence
// waits for all Reads, and no more than ORD Reads are outstanding.
func (t *transmitter) sendReady(end uint32) bool {
	if t.inSend {
		return true
	}
	if t.pos == end {
		return false
	}
	e := t.q.sq.at(t.pos)
	if e.flags&verbs.SendFence != 0 && t.q.outstanding() > 0 {
		return false
	}
	return e.op != verbs.OpRDMARead || t.q.outstanding() < t.q.ord
}
