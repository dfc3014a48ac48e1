//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"fmt"
	"syscall"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// PostSend implements verbs.QP. Requests posted after Disconnect are kept and flushed at
// the end of the connection.
func (q *queuePair) PostSend(wrs []verbs.SendWR) (n int, err error) {
	s := &q.sq
	s.posting.Lock()
	for n < len(wrs) && err == nil && (s.phase == sendOpen || s.phase == sendHeld) {
		var taken int
		taken, err = q.prepareSends(wrs[n:min(n+postBatch, len(wrs))])
		n += taken
		if len(s.list) > 0 {
			q.handOverSends()
		}
	}
	phase := s.phase
	s.posting.Unlock()
	switch {
	case err != nil || n == len(wrs):
		return n, err
	case phase == sendIdle:
		return n, fmt.Errorf("rdmacore: post send: %w", verbs.ErrQPState)
	}
	rest := wrs[n:]
	more, err := q.postFlushed(q.sendCQ, len(rest), func(i int) uint64 { return rest[i].ID })
	return n + more, err
}

// prepareSends checks requests, adds them to the ring and fills the list for the device. It
// returns the number of valid requests. The caller holds posting.
func (q *queuePair) prepareSends(wrs []verbs.SendWR) (n int, err error) {
	s := &q.sq
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.sges = s.list[:0], s.sges[:0]
	for i := range wrs {
		wr := &wrs[i]
		if s.outstanding() >= s.limit {
			return i, fmt.Errorf("rdmacore: post send: %w", verbs.ErrQueueFull)
		}
		e := s.at(s.tail)
		*e = sendEntry{id: wr.ID, op: wr.Op, signaled: q.Attr.SigAll || wr.Flags&verbs.SendSignaled != 0}
		if err := q.translate(wr, e); err != nil {
			return i, err
		}
		s.tail++
		if e.done {
			// The request has failed already: later requests are kept for the flush.
			s.phase = sendHeld
			q.failSoon(errNotBound)
		}
	}
	return len(wrs), nil
}

// translate appends one request to the list for the device.
func (q *queuePair) translate(wr *verbs.SendWR, e *sendEntry) error {
	s := &q.sq
	switch {
	case wr.Op > verbs.OpBindMW:
		return driver.ErrOpcode
	case len(wr.SGL) > q.Attr.MaxSendSGE:
		return driver.ErrSGECount
	case wr.Op == verbs.OpRDMARead && q.dev.iwarp() && len(wr.SGL) != 1:
		return driver.ErrReadSGE
	}
	r := C.struct_rdmad_send{
		wr_id: C.uint64_t(uint64(q.Num())<<32 | uint64(s.tail&positionMask)), op: C.uint32_t(wr.Op), flags: sendFlags(wr, e.signaled),
		remote_addr: C.uint64_t(wr.RemoteAddr), rkey: C.uint32_t(wr.RKey), first_sge: C.uint32_t(len(s.sges)),
	}
	sges, err := q.gather(s.sges, wr.SGL, wr.Op == verbs.OpRDMARead)
	if err != nil {
		return err
	}
	if q.fitsInline(wr.Op, sges[len(s.sges):]) {
		r.flags |= C.IBV_SEND_INLINE
	}
	r.num_sge = C.uint32_t(len(sges) - len(s.sges))
	s.sges = sges
	switch wr.Op {
	case verbs.OpSendInvalidate:
		r.rkey = C.uint32_t(wr.InvalidateRKey)
	case verbs.OpLocalInvalidate:
		r.rkey, e.key = C.uint32_t(wr.InvalidateRKey), wr.InvalidateRKey
		if !q.windows.revoke(wr.InvalidateRKey) {
			e.done, e.status = true, verbs.WCLocQPOpErr
			return nil
		}
		if q.dev.is(vendorRXE) { // see revokeDone
			r.op, r.rkey, r.flags = C.uint32_t(verbs.OpRDMAWrite), 0, r.flags|C.IBV_SEND_SIGNALED
		}
	case verbs.OpBindMW:
		if err := q.prepareBind(&wr.Bind, e, &r); err != nil {
			return err
		}
	}
	if s.phase == sendOpen {
		s.list = append(s.list, r)
	}
	return nil
}

// gather appends the non-empty entries of a list. Adapters take length 0 for 2 GiB, and siw
// of 6.1 crashes the kernel over it. A Read keeps one entry.
func (q *queuePair) gather(sges []C.struct_ibv_sge, sgl []verbs.SGE, read bool) ([]C.struct_ibv_sge, error) {
	at, total, access := len(sges), uint64(0), verbs.Access(0)
	if read {
		access = q.dev.Attrs.SinkAccess()
	}
	for i := range sgl {
		var entry C.struct_ibv_sge
		if err := q.pd.sge(&sgl[i], access, &entry); err != nil {
			return nil, err
		}
		if entry.length > 0 || read && q.dev.iwarp() {
			sges = append(sges, entry)
		}
		total += uint64(sgl[i].Length)
	}
	if total > uint64(q.dev.Attrs.MaxMsgSize) {
		return nil, driver.ErrTooLong
	}
	if !read && len(sges) == at+1 && q.dev.is(vendorSIW) {
		sges = splitShort(sges)
	}
	return sges, nil
}

// fitsInline reports whether the request carries its data itself, so that the device need not
// read them from memory. siw takes a Send With Invalidate with inline data for an error. On
// Intel's adapters, libibverbs before version 44 sends the first entry only.
func (q *queuePair) fitsInline(op verbs.Opcode, sges []C.struct_ibv_sge) bool {
	switch {
	case op == verbs.OpSend, op == verbs.OpRDMAWrite:
	case op == verbs.OpSendInvalidate && !q.dev.is(vendorSIW):
	default:
		return false
	}
	if len(sges) > 1 && q.dev.is(vendorIntel) {
		return false
	}
	total := uint64(0)
	for i := range sges {
		total += uint64(sges[i].length)
	}
	return total > 0 && total <= uint64(q.inline)
}

// siwInline is the largest length, in bytes, of messages of one entry that siw of 6.1 sends
// by a special path (siw_try_1seg). When such a message crosses a page, that path sends
// wrong bytes, and sometimes it fails.
const siwInline = 32

// splitShort splits the last entry into two if it is that short.
func splitShort(sges []C.struct_ibv_sge) []C.struct_ibv_sge {
	last := &sges[len(sges)-1]
	if last.length < 2 || last.length > siwInline {
		return sges
	}
	last.length--
	rest := *last
	rest.addr += C.uint64_t(last.length)
	rest.length = 1
	return append(sges, rest)
}

// scatter is gather for a Receive. It keeps one entry, because libsiw needs one, and rxe
// uses the slot's previous entries when there is none.
func (q *queuePair) scatter(sges []C.struct_ibv_sge, sgl []verbs.SGE) ([]C.struct_ibv_sge, error) {
	at := len(sges)
	for i := range sgl {
		var entry C.struct_ibv_sge
		if err := q.pd.sge(&sgl[i], verbs.AccessLocalWrite, &entry); err != nil {
			return nil, err
		}
		if entry.length > 0 {
			sges = append(sges, entry)
		}
	}
	if len(sges) == at && (q.dev.is(vendorSIW) || q.dev.is(vendorRXE)) {
		sges = append(sges, C.struct_ibv_sge{})
	}
	return sges, nil
}

// sendFlags returns libibverbs' flags. Reads always request a completion, because later
// requests may complete before them.
func sendFlags(wr *verbs.SendWR, signaled bool) (flags C.uint32_t) {
	if signaled || wr.Op == verbs.OpRDMARead {
		flags |= C.IBV_SEND_SIGNALED
	}
	if wr.Flags&verbs.SendFence != 0 {
		flags |= C.IBV_SEND_FENCE
	}
	if wr.Flags&verbs.SendSolicited != 0 {
		flags |= C.IBV_SEND_SOLICITED
	}
	return flags
}

// handOverSends posts the list to the device. If the device refuses it, the ring no longer
// matches the device, and the queue pair ends. The caller holds posting, and not mu: on siw
// the call does all the work of sending, and polling takes mu.
func (q *queuePair) handOverSends() {
	s := &q.sq
	rc := q.giveSends(q.dev.rings)
	if rc == C.EACCES<<32 {
		rc = q.giveSendsAtHome()
	}
	if errno := syscall.Errno(rc >> 32); errno != 0 {
		q.failSoon(fmt.Errorf("rdmacore: post send: %w", errno))
	}
	s.mu.Lock()
	s.last = s.tail
	s.mu.Unlock()
}

func (q *queuePair) giveSends(rings C.int) uint64 {
	s := &q.sq
	return uint64(C.rdmad_post_send(q.c, &s.list[0], C.uint32_t(len(s.list)), &s.sges[:1][0], rings))
}

// giveSendsAtHome is a separate function because a closure in the posting function
// would cost memory for every post.
func (q *queuePair) giveSendsAtHome() (rc uint64) {
	atHome(func() { rc = q.giveSends(0) })
	return rc
}

// PostRecv implements verbs.QP.
func (q *queuePair) PostRecv(wrs []verbs.RecvWR) (n int, err error) {
	r := &q.rq
	r.mu.Lock()
	for n < len(wrs) && err == nil && r.open {
		var taken int
		taken, err = q.prepareRecvsLocked(wrs[n:min(n+postBatch, len(wrs))])
		n += taken
		if len(r.list) == 0 {
			break
		}
		rc := uint64(C.rdmad_post_recv(q.c, &r.list[0], C.uint32_t(len(r.list)), &r.sges[:1][0]))
		if errno := syscall.Errno(rc >> 32); errno != 0 {
			q.failSoon(fmt.Errorf("rdmacore: post receive: %w", errno))
		}
	}
	r.mu.Unlock()
	if err != nil || n == len(wrs) {
		return n, err
	}
	rest := wrs[n:]
	more, err := q.postFlushed(q.recvCQ, len(rest), func(i int) uint64 { return rest[i].ID })
	return n + more, err
}

func (q *queuePair) prepareRecvsLocked(wrs []verbs.RecvWR) (n int, err error) {
	r := &q.rq
	r.list, r.sges = r.list[:0], r.sges[:0]
	for i := range wrs {
		if r.outstanding() >= r.limit {
			return i, fmt.Errorf("rdmacore: post receive: %w", verbs.ErrQueueFull)
		}
		sgl := wrs[i].SGL
		if len(sgl) > q.Attr.MaxRecvSGE {
			return i, driver.ErrSGECount
		}
		sges, err := q.scatter(r.sges, sgl)
		if err != nil {
			return i, err
		}
		r.list = append(r.list, C.struct_rdmad_recv{
			wr_id:     C.uint64_t(uint64(q.Num())<<32 | recvBit | uint64(r.tail&positionMask)),
			first_sge: C.uint32_t(len(r.sges)), num_sge: C.uint32_t(len(sges) - len(r.sges)),
		})
		r.sges = sges
		*r.at(r.tail) = wrs[i].ID
		r.tail++
	}
	return len(wrs), nil
}
