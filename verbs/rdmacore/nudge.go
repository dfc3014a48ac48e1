//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// A passive side on iWARP may look at its socket for FPDUs only a moment after
// it has said yes, and overlook until more arrives what came in between: Linux's
// siw_accept sends the MPA reply before siw_qp_socket_assoc. With one credit
// more never arrives. So while the peer of an active side is silent, an empty
// RDMA Write follows what was sent: it places nothing, and is what RFC 6581
// sends for a ready-to-receive indication. Provider softiwarp does the same.
const (
	firstNudge = 50 * time.Millisecond // after the connection was made
	// mostNudges is how many there are at most: intervals double, and the last
	// one comes 1.55 s after the connection was made.
	mostNudges = 5
)

// awaitPeer starts nudging the peer of an active side while it stays silent.
func (q *queuePair) awaitPeer() {
	if !q.dev.iwarp() {
		return
	}
	q.Lock()
	defer q.Unlock()
	if q.StateLocked() != verbs.QPRTS {
		return
	}
	interval, left := firstNudge, mostNudges
	q.nudgeTimer = time.AfterFunc(interval, func() {
		q.Lock()
		defer q.Unlock()
		if left--; q.nudgeLocked() && left > 0 {
			interval *= 2
			q.nudgeTimer.Reset(interval)
		}
	})
}

// nudgeLocked posts an empty RDMA Write if something was sent before, and says
// whether the peer may need another one.
func (q *queuePair) nudgeLocked() bool {
	if q.StateLocked() != verbs.QPRTS || q.heard() {
		return false
	}
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	if q.sq.phase == sendOpen && q.sq.tail != 0 {
		q.postInternalLocked(0)
	}
	return true
}

// heard says whether the peer has sent something, as far as the consumer has
// polled.
func (q *queuePair) heard() bool {
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	return q.rq.head != 0
}

// postInternalLocked posts an empty RDMA Write of our own, which names no
// memory and has one of the places beyond the consumer's. Without IBV_SEND_SIGNALED
// it completes with what comes after it, and takes no place of the CQ's. The lock
// of the send queue is held.
func (q *queuePair) postInternalLocked(flags C.uint32_t) {
	s := &q.sq
	s.list = append(s.list[:0], C.struct_rdmad_send{
		wr_id: C.uint64_t(uint64(q.Num())<<32 | uint64(s.tail&positionMask)), op: C.uint32_t(verbs.OpRDMAWrite), flags: flags,
	})
	*s.at(s.tail) = sendEntry{op: verbs.OpRDMAWrite, internal: true}
	s.tail++
	s.internal++
	q.handOverSendsLocked()
}
