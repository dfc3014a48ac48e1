//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "github.com/rdmad/rdmad/verbs"

// awaitPeer sends nudges from an active side while its peer stays silent (see
// driver.MostNudges).
func (q *queuePair) awaitPeer() {
	if !q.dev.iwarp() {
		return
	}
	q.Lock()
	defer q.Unlock()
	if q.StateLocked() != verbs.QPRTS {
		return
	}
	q.nudgeTimer = q.NudgesLocked(q.nudgeLocked)
}

// nudgeLocked posts an empty RDMA Write if something was sent before. It reports whether
// the peer may need another one.
func (q *queuePair) nudgeLocked() bool {
	if q.heard() {
		return false
	}
	q.sq.posting.Lock()
	defer q.sq.posting.Unlock()
	if q.sq.phase == sendOpen {
		q.postInternal(0, func(s *sendQueue) bool { return s.tail != 0 })
	}
	return true
}

// heard reports whether the consumer has polled a message of the peer.
func (q *queuePair) heard() bool {
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	return q.rq.head != 0
}

// postInternal posts an empty RDMA Write that names no memory, if the ring is as wanted. It
// uses one of the slots beyond the consumer's. Without IBV_SEND_SIGNALED it completes with
// the next request and needs no place in the CQ. The caller holds posting; wanted is called
// with mu as well.
func (q *queuePair) postInternal(flags C.uint32_t, wanted func(*sendQueue) bool) {
	if q.prepareInternal(flags, wanted) {
		q.handOverSends()
	}
}

func (q *queuePair) prepareInternal(flags C.uint32_t, wanted func(*sendQueue) bool) bool {
	s := &q.sq
	s.mu.Lock()
	defer s.mu.Unlock()
	if !wanted(s) {
		return false
	}
	s.list = append(s.list[:0], C.struct_rdmad_send{
		wr_id: C.uint64_t(uint64(q.Num())<<32 | uint64(s.tail&positionMask)), op: C.uint32_t(verbs.OpRDMAWrite), flags: flags,
	})
	*s.at(s.tail) = sendEntry{op: verbs.OpRDMAWrite, internal: true}
	s.tail++
	s.internal++
	return true
}
