package softiwarp

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// compactBelow is the free room at the buffer's end, in bytes, below which
// the incomplete FPDU is moved to the front before reading on.
const compactBelow = bufferSize / 2

// receiver is the receiving side of a connection. It belongs to the
// receiving goroutine, and to finishLocked after that has ended.
type receiver struct {
	q *queuePair

	buf      *buffer // nil while waiting
	start    *buffer // while waiting: the start of an FPDU, or nil
	from, to int     // the bytes of buf or start that are not consumed
	read     func(fd uintptr) bool
	n        int
	err      error

	// The numbers expected next.
	sendMSN, readMSN uint32
	rtrSend, rtrRead bool // see link

	// The message on queue 0 that has begun.
	inSend   bool
	op       rdmap.Opcode
	entry    *recvEntry
	got      int // bytes of it
	piece    int
	pieceOff int

	readGot int // bytes of the oldest Read's data

	heard      bool // the first FPDU has come
	kick       bool // something may have become ready to send
	wakeSend   bool // a goroutine waits for the send CQ and must be woken up
	wakeRecv   bool
	tooLong    bool // the message was longer than its Receive
	peerClosed bool
	end        ending
}

// ending is why receiving can't go on.
type ending struct {
	cause   error
	goodbye *rdmap.Term
	// The oldest Read is to blame, when readStatus is not WCSuccess.
	readStatus verbs.WCStatus
	// A Terminate that came, for attribution.
	received *rdmap.Term
}

func (r *receiver) init(q *queuePair) {
	r.q = q
	r.read = r.tryRead
}

func (r *receiver) begin(l link) {
	r.sendMSN, r.readMSN = 1, 1
	r.rtrRead = l.rtrRead
	r.rtrSend = l.rtrSend && l.passive
}

// receive is the receiving goroutine.
func (q *queuePair) receive() {
	r := &q.rx
	for r.fill(q.raw) && r.consume() {
		q.received()
	}
	r.wake()
	r.release()
	if r.start != nil {
		r.start.put()
		r.start = nil
	}
	q.Lock()
	defer q.Unlock()
	q.rxActive = false
	q.endLocked(&r.end)
	q.finishLocked()
}

// received lets senders run after a buffer of input.
func (q *queuePair) received() {
	if !q.rx.kick {
		return
	}
	q.rx.kick = false
	q.rx.wake()
	q.Lock()
	defer q.Unlock()
	q.hold = false
	q.kickLocked(receiveQuanta)
	q.drainedLocked()
}

// fill reads more input, waiting for it; false at the end.
func (r *receiver) fill(raw syscall.RawConn) bool {
	if r.from == r.to {
		r.from, r.to = 0, 0
	} else if r.from > 0 && bufferSize-r.to < compactBelow {
		r.to = copy(r.buf.mem, r.buf.mem[r.from:r.to])
		r.from = 0
	}
	r.n, r.err = 0, nil
	if err := raw.Read(r.read); err != nil && r.err == nil {
		r.err = err
	}
	r.wake()
	if r.err == nil && r.n > 0 {
		r.to += r.n
		return true
	}
	r.peerClosed = r.err == nil
	r.end.cause = r.inputError()
	return false
}

// tryRead is one reading system call; false when there is nothing to read.
func (r *receiver) tryRead(fd uintptr) bool {
	r.unpark()
	for {
		n, err := unix.Read(int(fd), r.buf.mem[r.to:])
		switch {
		case err == nil:
			r.n = n
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			r.park()
			r.wake()
			return false
		default:
			r.err = err
		}
		return true
	}
}

// wake wakes up the goroutines that wait for completions of the last input. It is
// called after each buffer of input, and just before the receiving goroutine stops, so
// that they can continue on the same processor.
func (r *receiver) wake() {
	if r.wakeRecv {
		r.wakeRecv = false
		r.q.recvCQ.Wake()
	}
	if r.wakeSend {
		r.wakeSend = false
		r.q.sendCQ.Wake()
	}
}

// park gives the large buffer back while there is nothing to read. The start
// of an FPDU moves to a small buffer, so that peers that stop within an FPDU do
// not tie up much more than they have sent.
func (r *receiver) park() {
	if r.from < r.to {
		r.start = r.q.dev.buffers.get(r.to - r.from)
		r.to = copy(r.start.mem, r.buf.mem[r.from:r.to])
		r.from = 0
	}
	r.release()
}

func (r *receiver) unpark() {
	if r.buf == nil {
		r.buf = r.q.dev.buffers.get(bufferSize)
	}
	if r.start != nil {
		copy(r.buf.mem, r.start.mem[:r.to])
		r.start.put()
		r.start = nil
	}
}

// release gives the large buffer back.
func (r *receiver) release() {
	if r.buf != nil {
		r.buf.put()
		r.buf = nil
	}
}

// inputError is the reason that the end of input gives.
func (r *receiver) inputError() error {
	switch {
	case r.err != nil:
		return fmt.Errorf("softiwarp: receive: %w", r.err)
	case r.from != r.to:
		return errMidFPDU
	}
	return verbs.ErrDisconnected
}

// consume places all whole FPDUs of the buffer; false when the connection
// must end.
func (r *receiver) consume() bool {
	for r.from < r.to {
		ulpdu, n, err := mpa.DecodeFPDU(r.buf.mem[r.from:r.to], r.q.crc)
		if errors.Is(err, mpa.ErrShort) {
			return true
		}
		if !r.heard {
			r.heard, r.kick = true, true
			r.q.answered.Store(true)
		}
		if err != nil {
			r.refuse(rdmap.MPACRC, nil)
			return false
		}
		if !r.place(ulpdu) {
			return false
		}
		r.from += n
	}
	return true
}

// endLocked records why receiving ended, unless the queue pair is dead for
// another reason.
func (q *queuePair) endLocked(end *ending) {
	cause := end.cause
	if q.txErr != nil && (errors.Is(cause, verbs.ErrDisconnected) || isTimeout(cause)) {
		cause = q.txErr
	}
	if q.leftLocked(cause) {
		cause = fmt.Errorf("%w: %w", verbs.ErrDisconnected, cause)
	}
	switch {
	case end.received != nil:
		q.attributeLocked(end.received)
	case end.readStatus != verbs.WCSuccess:
		q.blameOldestReadLocked(end.readStatus)
	}
	q.failLocked(cause, end.goodbye)
}

// leftLocked says whether the peer has reset the stream between two messages
// with nothing left to be done for either side: it closed its socket without
// lingering, and that is an end like another.
func (q *queuePair) leftLocked(cause error) bool {
	return errors.Is(cause, syscall.ECONNRESET) && q.rx.from == q.rx.to &&
		q.sq.head == q.sq.tail && !q.txBusy && len(q.tx.pending()) == 0 && q.inbound.empty()
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
