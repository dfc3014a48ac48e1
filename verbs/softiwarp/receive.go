package softiwarp

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/notices"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// compactBelow is a number of free bytes at the buffer's end. Below it, the incomplete
// FPDU moves to the front before the next read.
const compactBelow = bufferSize / 2

// receiver is the receiving side of a connection. It belongs to the reader, the goroutine
// that holds the right queuePair.reading. After the reader's end it belongs to
// finishLocked.
type receiver struct {
	q *queuePair

	buf      *buffer // nil while waiting, unless held
	start    *buffer // while waiting: the start of an FPDU, or nil
	held     bool    // buf is one of the device's held ones
	from, to int     // the unconsumed bytes of buf or start
	read     func(fd uintptr) bool
	notices  *notices.Notices // nil before the first request
	watched  bool             // input calls queuePair.readable
	// unwatched means that the system refused to watch the socket. It is for the receiving
	// goroutine that starts next.
	unwatched bool
	request   func(fd uintptr)
	withdraw  func(fd uintptr)
	look      bool // do not wait for input
	n         int
	err       error
	nothing   bool // the last attempt found no input

	// The next expected message sequence numbers.
	sendMSN, readMSN uint32
	rtrSend, rtrRead bool // see link

	// The message on queue 0 that has begun.
	inSend   bool
	op       rdmap.Opcode
	entry    *recvEntry
	pieces   []piece // of entry
	got      int     // bytes of it so far
	piece    int
	pieceOff int

	readGot int // bytes of the oldest Read's data so far

	heard      bool // the first FPDU has arrived
	kick       bool // something may have become ready to send
	wakeSend   bool // a goroutine waits for the send CQ
	wakeRecv   bool
	tooLong    bool // the message was longer than its Receive
	peerClosed bool
	end        ending
}

// input is the outcome of an attempt to read.
type input uint8

const (
	inputMore input = iota
	inputNone
	inputInterrupted // by queuePair.interrupt
	inputEnd
)

// ending is the reason why receiving can't continue.
type ending struct {
	cause   error
	goodbye *rdmap.Term
	// Unless readStatus is WCSuccess, the oldest Read caused the end.
	readStatus verbs.WCStatus
	// received is the peer's Terminate, if one arrived.
	received *rdmap.Term
}

func (r *receiver) init(q *queuePair) {
	r.q = q
	r.read = r.tryRead
	r.request = func(fd uintptr) { r.watched = r.notices.Request(int(fd), uint64(q.Num())) == nil }
	r.withdraw = func(fd uintptr) { r.notices.Withdraw(int(fd)) }
}

func (r *receiver) begin(l link) {
	r.sendMSN, r.readMSN = 1, 1
	r.rtrRead = l.rtrRead
	r.rtrSend = l.rtrSend && l.passive
}

// received lets the sending side continue after a buffer of input.
func (q *queuePair) received() {
	if !q.rx.kick {
		return
	}
	q.rx.kick = false
	q.Lock()
	defer q.Unlock()
	q.hold = false
	q.kickLocked(receiveQuanta)
	q.drainedLocked()
}

// fill reads more input. It waits for input, unless r.look is set.
func (r *receiver) fill() input {
	if r.from == r.to {
		r.from, r.to = 0, 0
	} else if r.buf != nil && r.from > 0 && bufferSize-r.to < compactBelow {
		r.to = copy(r.buf.mem, r.buf.mem[r.from:r.to])
		r.from = 0
	}
	r.n, r.err, r.nothing = 0, nil, false
	if err := r.q.raw.Read(r.read); err != nil && r.err == nil {
		r.err = err
	}
	switch {
	case r.nothing:
		return inputNone
	case r.err == nil && r.n > 0:
		r.to += r.n
		return inputMore
	case isTimeout(r.err) && r.q.resume():
		return inputInterrupted
	}
	r.peerClosed = r.err == nil
	r.end.cause = r.inputError()
	return inputEnd
}

// tryRead makes one read system call. It returns false when there is no input.
func (r *receiver) tryRead(fd uintptr) bool {
	r.unpark()
	for {
		n, err := unix.Read(int(fd), r.buf.mem[r.to:])
		switch err {
		case nil:
			r.n = n
		case unix.EINTR:
			continue
		case unix.EAGAIN: // before each wait
			r.park()
			r.wake()
			r.nothing = r.look
			return r.look
		default:
			r.err = err
		}
		return true
	}
}

// wake wakes up the goroutines that wait for completions of the last input. It is called
// after each buffer of input. It is also called just before the receiving goroutine stops,
// so that the waiting goroutine can continue on the same processor.
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

// park returns the large buffer while there is nothing to read. The start of an FPDU moves
// to a small buffer. So a peer that stops within an FPDU ties up little more memory than
// it has sent. A few connections keep the large buffer instead, so that peers that send
// much do not cost the moves.
func (r *receiver) park() {
	if r.buf == nil || r.held {
		return
	}
	if r.from < r.to {
		if r.held = r.q.dev.hold(); r.held {
			return
		}
		r.start = r.q.dev.buffers.get(r.to - r.from)
		r.to = copy(r.start.mem, r.buf.mem[r.from:r.to])
		r.from = 0
	}
	r.release()
}

func (r *receiver) unpark() {
	r.letGo()
	if r.buf == nil {
		r.buf = r.q.dev.buffers.get(bufferSize)
	}
	if r.start != nil {
		copy(r.buf.mem, r.start.mem[:r.to])
		r.start.put()
		r.start = nil
	}
}

func (r *receiver) letGo() {
	if r.held {
		r.held = false
		r.q.dev.held.Add(-1)
	}
}

// release returns the large buffer.
func (r *receiver) release() {
	r.letGo()
	if r.buf != nil {
		r.buf.put()
		r.buf = nil
	}
}

// inputError returns the error for the end of input.
func (r *receiver) inputError() error {
	switch {
	case r.err != nil:
		return fmt.Errorf("softiwarp: receive: %w", r.err)
	case r.from != r.to:
		return errMidFPDU
	}
	return verbs.ErrDisconnected
}

// consume places all complete FPDUs of the buffer. It returns false when the connection
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

// endLocked records why receiving ended, unless the queue pair has failed for another
// reason.
func (q *queuePair) endLocked(end *ending) {
	cause := end.cause
	if q.txErr != nil && (errors.Is(cause, verbs.ErrDisconnected) || isTimeout(cause)) {
		cause = q.txErr
	}
	if errors.Is(cause, verbs.ErrDisconnected) && q.txBusy && wasReset(q.raw) {
		cause = fmt.Errorf("softiwarp: send: %w", syscall.ECONNRESET)
	}
	if q.leftLocked(cause) {
		cause = fmt.Errorf("%w: %w", verbs.ErrDisconnected, cause)
	}
	switch {
	case end.received != nil:
		q.attributeLocked(end.received)
	case end.readStatus != verbs.WCSuccess:
		q.blameFirstLocked(end.readStatus, waitingRead)
	}
	q.failLocked(cause, end.goodbye)
}

// wasReset reports whether the peer has reset the stream. The kernel returns the error only to
// the first system call after the reset. If that is a send, reading finds an ordinary end of the
// stream, perhaps before the send has returned.
func wasReset(raw syscall.RawConn) (reset bool) {
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		reset = err == nil && info.State == unix.BPF_TCP_CLOSE
	})
	return reset
}

// leftLocked reports whether the peer has reset the stream between two messages while
// neither side had anything left to do. The peer then closed its socket without lingering,
// which counts as an orderly end.
func (q *queuePair) leftLocked(cause error) bool {
	return errors.Is(cause, syscall.ECONNRESET) && q.rx.from == q.rx.to &&
		q.sq.head == q.sq.tail && !q.txBusy && len(q.tx.sock.pending()) == 0 && q.inbound.empty()
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
