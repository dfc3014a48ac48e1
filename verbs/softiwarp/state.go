package softiwarp

import (
	"net"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// longAgo, set as a deadline, ends every wait on a socket at once.
var longAgo = time.Unix(1, 0)

// link is the outcome of the MPA exchange.
type link struct {
	conn     *net.TCPConn
	crc      bool
	ird, ord int
	passive  bool // send nothing before the peer's first FPDU
	// rtrRead means that our first FPDU was a Read Request as RTR indication; its
	// response is not for the consumer. rtrSend means that the RTR indication was a
	// Send of either side; it has used MSN 1 of queue 0.
	rtrRead, rtrSend bool
}

// establish gives the queue pair its connection and starts it. It returns false when the
// queue pair has ended already; the connection then still belongs to the caller.
func (q *queuePair) establish(l link) bool {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return false
	}
	_ = l.conn.SetNoDelay(true) // this is Go's default; nothing here waits to fill a segment
	q.Lock()
	defer q.Unlock()
	if !q.ReadyLocked() {
		return false
	}
	q.conn, q.raw, q.crc, q.ird, q.ord = l.conn, raw, l.crc, l.ird, l.ord
	q.tx.batch.crc = l.crc
	q.maxULPDU = q.dev.provider.config.MaxULPDU
	q.inbound.init(l.ird)
	q.hold = l.passive
	q.rx.begin(l)
	if l.rtrRead {
		q.sq.readMSN = 1
		q.readsSent.Store(1)
	}
	if l.rtrSend && !l.passive {
		q.sq.sendMSN = 1
	}
	if !l.passive {
		q.awaitPeerLocked()
	}
	q.rxActive = true
	q.unattend()
	return true
}

// fail moves the queue pair into the error state. Only the first call has an effect.
// goodbye is the Terminate to send, or nil.
func (q *queuePair) fail(cause error, goodbye *rdmap.Term) {
	q.Lock()
	defer q.Unlock()
	q.failLocked(cause, goodbye)
}

func (q *queuePair) failLocked(cause error, goodbye *rdmap.Term) {
	if !q.FailLocked(cause) {
		return
	}
	q.goodbye = goodbye
	if q.nudgeTimer != nil {
		q.nudgeTimer.Stop()
	}
	if q.conn != nil {
		// This wakes up the reader and a waiting writer.
		_ = q.conn.SetDeadline(longAgo)
	}
	if q.dying.Store(true); q.reading.Take() {
		q.stopReadingLocked()
	}
	q.finishLocked()
}

// blameLocked attributes the coming failure to one send-queue request.
func (q *queuePair) blameLocked(pos uint32, status verbs.WCStatus) {
	if q.StateLocked() != verbs.QPErr && !q.failed {
		q.failed, q.failedPos, q.failedStatus = true, pos, status
	}
}

// finishLocked completes the end of the queue pair when neither the reader nor a sender is
// active. The last of them to stop calls it.
func (q *queuePair) finishLocked() {
	if q.StateLocked() != verbs.QPErr || q.finished || q.txBusy || q.rxActive {
		return
	}
	q.finished = true
	q.flushSendsLocked()
	q.flushReceives()
	if q.conn != nil {
		rest, last := q.lastWords()
		q.dev.provider.lingers.add(q.conn, rest, last, q.rx.peerClosed)
		q.id.Ended()
	}
	if q.drainTimer != nil {
		q.drainTimer.Stop()
	}
	close(q.done)
}

// lastWords gives up the bytes still to be written at the end: the rest of a partly sent
// FPDU, then the Terminate.
func (q *queuePair) lastWords() (rest leftover, last []byte) {
	rest, q.tx.sock.leftover = q.tx.sock.leftover, leftover{}
	if q.txErr != nil {
		rest.discard()
		return rest, nil
	}
	// A passive side sends nothing before the peer's first FPDU.
	if q.goodbye != nil && (!q.hold || q.rx.heard) {
		last = appendTerminate(nil, q.goodbye, q.crc)
	}
	return rest, last
}

func (q *queuePair) flushReceives() {
	r := &q.rq
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushed = true
	for r.count > 0 {
		wc := verbs.WC{ID: r.ring[r.head].id, Status: verbs.WCWRFlushErr, QPNum: q.Num()}
		if q.rx.tooLong {
			wc.Status = verbs.WCLocLenErr
			q.rx.tooLong = false
		}
		r.popLocked()
		q.recvCQ.Push(&wc)
	}
}

// Disconnect implements driver.QueuePair. It starts an orderly end: for at most the drain
// timeout, requests posted so far are sent and Reads complete.
func (q *queuePair) Disconnect() error {
	q.Lock()
	defer q.Unlock()
	if begun, err := q.DrainLocked(); !begun {
		return err
	}
	q.sq.limit = q.sq.tail
	q.drainTimer = time.AfterFunc(q.dev.provider.config.DrainTimeout, func() {
		q.fail(verbs.ErrDisconnected, nil)
	})
	q.drainedLocked()
	q.backgroundLocked() // the consumer may not wait any more
	return nil
}

// drainedLocked ends a draining connection once all its work is done.
func (q *queuePair) drainedLocked() {
	if q.StateLocked() == verbs.QPSQD && q.sq.head == q.sq.limit && !q.txBusy && q.inbound.empty() {
		q.failLocked(verbs.ErrDisconnected, nil)
	}
}
