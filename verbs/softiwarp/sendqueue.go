package softiwarp

import (
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

const knownFlags = verbs.SendSignaled | verbs.SendFence | verbs.SendSolicited

// sendEntry is a posted send-queue request.
type sendEntry struct {
	id       uint64
	op       verbs.Opcode
	flags    verbs.SendFlags
	done     bool // the request was sent; for a Read, its data has arrived
	length   int  // bytes of all pieces
	pieces   []piece
	raddr    uint64
	rkey     uint32
	inv      uint32
	msn      uint32 // of a Send on queue 0, or of a Read on queue 1
	sinkSTag uint32 // the STag of the Read's responses
	bind     driver.Binding
}

// sendQueue is the bounded ring of send-queue requests. Positions only grow (and wrap). The
// entry of a position is at position & mask.
//
//	free <= head <= tx <= tail: [free, head) is retired and unsignaled, and
//	waits for a later completion to free its slots; [head, tx) was sent and is
//	not retired, because it or an earlier one waits for a Read; [tx, tail)
//	belongs to the owner of transmission.
//
// The ring has slots for the whole depth. Entries are allocated only for the largest number
// of requests that were queued at one time, because most connections never come near the
// depth. Entries never move. While the consumer rests, an empty queue has neither ring nor
// entries.
type sendQueue struct {
	ring  []*sendEntry // the slots of [free, tail) are not nil; nil without requests, see shrink
	spare []*sendEntry // unused entries; the last one is reused first
	mask  uint32       // of the ring
	depth uint32       // MaxSendWR
	sge   int          // MaxSendSGE

	free, head, tx, tail uint32
	limit                uint32 // the position where a draining queue ends

	sendMSN, readMSN uint32 // of the last request posted
	// reads holds the positions of the posted Reads, by their MSN & mask. It is nil
	// before the first Read.
	reads []uint32
}

func (s *sendQueue) init(depth, sge int) {
	s.mask = uint32(driver.Slots(depth) - 1)
	s.depth = uint32(depth)
	s.sge = sge
}

// shrink frees the storage of an empty queue. The caller holds the lock, and no goroutine
// owns transmission.
func (s *sendQueue) shrink() {
	if s.free == s.tail {
		s.ring, s.spare, s.reads = nil, nil, nil
	}
}

func (s *sendQueue) at(pos uint32) *sendEntry { return s.ring[pos&s.mask] }

// next returns the entry at the tail.
func (s *sendQueue) next() *sendEntry {
	if s.ring == nil {
		s.ring = make([]*sendEntry, s.mask+1)
	}
	at := &s.ring[s.tail&s.mask]
	if *at == nil { // a refused request leaves its entry here
		if last := len(s.spare) - 1; last >= 0 {
			*at, s.spare = s.spare[last], s.spare[:last]
		} else {
			*at = &sendEntry{pieces: make([]piece, 0, s.sge)}
		}
	}
	return *at
}

// freeTo frees all entries before a position.
func (s *sendQueue) freeTo(pos uint32) {
	for ; s.free != pos; s.free++ {
		at := &s.ring[s.free&s.mask]
		s.spare = append(s.spare, *at)
		*at = nil
	}
}

// read returns the entry of the Read with the given MSN, which is outstanding.
func (s *sendQueue) read(msn uint32) *sendEntry { return s.at(s.reads[msn&s.mask]) }

// release drops everything that an entry holds.
func (e *sendEntry) release() {
	releasePieces(&e.pieces)
	e.bind = driver.Binding{}
}

// PostSend implements verbs.QP.
func (q *queuePair) PostSend(wrs []verbs.SendWR) (int, error) {
	q.Lock()
	defer q.Unlock()
	if q.closed.Load() {
		return 0, verbs.ErrClosed
	}
	if q.StateLocked() < verbs.QPRTS {
		return 0, verbs.ErrQPState
	}
	for i := range wrs {
		if err := q.enqueueLocked(&wrs[i]); err != nil {
			q.kickLocked(postQuanta)
			return i, err
		}
	}
	q.kickLocked(postQuanta)
	return len(wrs), nil
}

// enqueueLocked checks a request and appends it to the queue. If the queue pair has
// ended, the request completes at once.
func (q *queuePair) enqueueLocked(wr *verbs.SendWR) error {
	s := &q.sq
	if s.tail-s.free == s.depth {
		return verbs.ErrQueueFull
	}
	e := s.next()
	if err := q.fill(e, wr); err != nil {
		return err
	}
	switch e.op {
	case verbs.OpSend, verbs.OpSendInvalidate:
		s.sendMSN++
		e.msn = s.sendMSN
	case verbs.OpRDMARead:
		s.readMSN++
		e.msn = s.readMSN
		e.sinkSTag = q.sinkBase + e.msn
		if s.reads == nil {
			s.reads = make([]uint32, len(s.ring))
		}
		s.reads[e.msn&s.mask] = s.tail
	}
	s.tail++
	if q.finished {
		q.flushSendsLocked()
	}
	return nil
}

// fill checks wr and copies it into e.
func (q *queuePair) fill(e *sendEntry, wr *verbs.SendWR) error {
	if wr.Flags&^knownFlags != 0 {
		return errFlags
	}
	if len(wr.SGL) > q.Attr.MaxSendSGE {
		return driver.ErrSGECount
	}
	e.id, e.op, e.flags, e.done = wr.ID, wr.Op, wr.Flags, false
	e.raddr, e.rkey, e.inv = wr.RemoteAddr, wr.RKey, wr.InvalidateRKey
	var need verbs.Access
	switch wr.Op {
	case verbs.OpSend, verbs.OpSendInvalidate, verbs.OpRDMAWrite:
	case verbs.OpRDMARead:
		need = verbs.AccessLocalWrite
		if len(wr.SGL) != 1 {
			return driver.ErrReadSGE
		}
		if q.ord == 0 && q.StateLocked() == verbs.QPRTS {
			return errNoReads
		}
	case verbs.OpLocalInvalidate:
		e.length = 0
		return nil
	case verbs.OpBindMW:
		e.length = 0
		return e.bind.Prepare(&q.QP, &wr.Bind)
	default:
		return driver.ErrOpcode
	}
	var err error
	e.length, err = q.takePieces(&e.pieces, wr.SGL, need)
	return err
}

// retireLocked completes requests from the head on, up to the first that is not done. If
// it returns true, the caller has to wake up the send CQ.
func (q *queuePair) retireLocked() (wake bool) {
	s := &q.sq
	for s.head != s.tx {
		e := s.at(s.head)
		if !e.done {
			break
		}
		signaled := q.Attr.SigAll || e.flags&verbs.SendSignaled != 0
		wc := verbs.WC{ID: e.id, Op: e.op.Completed(), QPNum: q.Num()}
		if e.op == verbs.OpRDMARead {
			wc.ByteLen = e.length
		}
		e.release()
		s.head++
		if !signaled {
			continue
		}
		s.freeTo(s.head)
		if q.sendCQ.PushQuietly(&wc) {
			wake = true
		}
	}
	return wake
}

// flushSendsLocked completes everything in the queue of a failed queue pair: the request
// at q.failedPos with its own status, all others as flushed. The caller makes sure that no
// goroutine owns transmission.
func (q *queuePair) flushSendsLocked() {
	s := &q.sq
	for ; s.head != s.tail; s.head++ {
		e := s.at(s.head)
		if !e.done {
			e.bind.Abandon()
		}
		wc := verbs.WC{ID: e.id, Status: verbs.WCWRFlushErr, QPNum: q.Num()}
		if q.failed && s.head == q.failedPos {
			wc.Status = q.failedStatus
			q.failed = false
		}
		e.release()
		q.sendCQ.Push(&wc)
	}
	s.freeTo(s.tail)
	s.tx = s.tail
}
