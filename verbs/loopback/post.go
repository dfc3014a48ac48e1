package loopback

import (
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// sendEntry is a posted send-queue request.
type sendEntry struct {
	id       uint64
	op       verbs.Opcode
	signaled bool
	fence    bool
	done     bool
	status   verbs.WCStatus // the status with which it failed, or WCSuccess
	sgl      []sge
	n        int // number of bytes in sgl
	addr     uint64
	key      uint32 // rkey, or the key to invalidate
	bind     driver.Binding
}

// recvEntry is a posted Receive.
type recvEntry struct {
	id  uint64
	sgl []sge
	n   int
}

// PostSend executes as much as possible before it returns.
func (q *queuePair) PostSend(wrs []verbs.SendWR) (int, error) {
	l := q.end.link
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case q.end.phase == phaseEnded:
		return q.flushSends(wrs)
	case !q.end.up():
		return 0, fmt.Errorf("loopback: post send: %w", verbs.ErrQPState)
	}
	for i := range wrs {
		if err := q.queueSend(&wrs[i]); err != nil {
			l.run()
			return i, err
		}
	}
	l.run()
	return len(wrs), nil
}

// flushSends handles a post in the error state.
func (q *queuePair) flushSends(wrs []verbs.SendWR) (int, error) {
	if q.closed {
		return 0, verbs.ErrClosed
	}
	for i := range wrs {
		q.complete(q.sendCQ, verbs.WC{ID: wrs[i].ID, Status: verbs.WCWRFlushErr})
	}
	q.end.link.arm()
	return len(wrs), nil
}

func (q *queuePair) queueSend(wr *verbs.SendWR) error {
	if q.sq.len()+q.held >= q.Attr.MaxSendWR {
		return verbs.ErrQueueFull
	}
	var bind driver.Binding
	err := q.checkSend(wr)
	if err == nil && wr.Op == verbs.OpBindMW {
		err = bind.Prepare(&q.QP, &wr.Bind)
	}
	if err != nil {
		return fmt.Errorf("loopback: post send: %w", err)
	}
	w := q.sq.push()
	*w = sendEntry{
		id: wr.ID, op: wr.Op,
		signaled: q.Attr.SigAll || wr.Flags&verbs.SendSignaled != 0,
		fence:    wr.Flags&verbs.SendFence != 0,
		sgl:      w.sgl[:0], addr: wr.RemoteAddr, key: wr.RKey, bind: bind,
	}
	switch wr.Op {
	case verbs.OpBindMW:
	case verbs.OpLocalInvalidate:
		w.key = wr.InvalidateRKey
	case verbs.OpSendInvalidate:
		w.key = wr.InvalidateRKey
		fallthrough
	default:
		w.sgl, w.n = appendSGL(w.sgl, wr.SGL)
	}
	return nil
}

func appendSGL(to []sge, list []verbs.SGE) ([]sge, int) {
	n := 0
	for i := range list {
		e := &list[i]
		mr := e.MR.(*driver.SoftMR)
		to = append(to, sge{mr, mr.Buf[e.Offset : e.Offset+e.Length]})
		n += e.Length
	}
	return to, n
}

// checkSend checks what can be checked before a request starts.
func (q *queuePair) checkSend(wr *verbs.SendWR) error {
	sink := verbs.Access(0)
	switch wr.Op {
	case verbs.OpSend, verbs.OpRDMAWrite:
	case verbs.OpRDMARead:
		if len(wr.SGL) != 1 && q.end.link.fabric.transport == IWARP {
			return driver.ErrReadSGE
		}
		sink = q.dev.Attrs.SinkAccess()
	case verbs.OpSendInvalidate:
		if !q.dev.Attrs.SendInvalidate {
			return fmt.Errorf("opcode Send With Invalidate: %w", verbs.ErrNotSupported)
		}
	case verbs.OpLocalInvalidate:
		return nil
	case verbs.OpBindMW:
		if !q.dev.Attrs.MemWindowType2B {
			return fmt.Errorf("memory windows: %w", verbs.ErrNotSupported)
		}
		return nil
	default:
		return driver.ErrOpcode
	}
	return q.checkSGL(wr.SGL, q.Attr.MaxSendSGE, sink)
}

// checkSGL checks a list whose regions need the rights in access.
func (q *queuePair) checkSGL(list []verbs.SGE, limit int, access verbs.Access) error {
	if len(list) > limit {
		return driver.ErrSGECount
	}
	total := 0
	for i := range list {
		r, ok := list[i].MR.(*driver.SoftMR)
		if !ok {
			return driver.ErrForeignMR
		}
		if r.Closed() {
			return driver.ErrClosedMR
		}
		if err := r.CheckSGE(&q.pd.PD, &list[i], access); err != nil {
			return err
		}
		if total += list[i].Length; total > maxMsgSize {
			return driver.ErrTooLong
		}
	}
	return nil
}

// PostRecv posts Receives. A waiting Send of the peer may then continue.
func (q *queuePair) PostRecv(wrs []verbs.RecvWR) (int, error) {
	l := q.end.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.closed {
		return 0, verbs.ErrClosed
	}
	for i := range wrs {
		if err := q.queueRecv(&wrs[i]); err != nil {
			l.run()
			return i, err
		}
	}
	l.run()
	return len(wrs), nil
}

func (q *queuePair) queueRecv(wr *verbs.RecvWR) error {
	if q.end.phase == phaseEnded {
		q.complete(q.recvCQ, verbs.WC{ID: wr.ID, Status: verbs.WCWRFlushErr})
		return nil
	}
	if q.rq.len() >= q.Attr.MaxRecvWR {
		return verbs.ErrQueueFull
	}
	if err := q.checkSGL(wr.SGL, q.Attr.MaxRecvSGE, verbs.AccessLocalWrite); err != nil {
		return fmt.Errorf("loopback: post receive: %w", err)
	}
	w := q.rq.push()
	w.id = wr.ID
	w.sgl, w.n = appendSGL(w.sgl[:0], wr.SGL)
	return nil
}
