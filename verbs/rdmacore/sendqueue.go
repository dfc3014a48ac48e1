//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// Numbers in completions: the queue pair's number in the upper half; in the lower half one
// bit for the receive queue and the position in the queue.
const (
	recvBit      = 1 << 31
	positionMask = recvBit - 1
	// spareSends is the number of slots of the device's send queue beyond the consumer's:
	// for awaitPeer, for a probe, and for the marker of an orderly end.
	spareSends = driver.MostNudges + 2
)

func numOf(wrID uint64) uint32 { return uint32(wrID >> 32) }

// postBatch is the largest number of requests posted to a device at once.
const postBatch = 32

// sendPhase decides what happens to requests that are posted.
type sendPhase uint8

const (
	sendIdle sendPhase = iota // not connected: refused
	sendOpen                  // given to the device
	sendHeld                  // kept until the end, because the queue pair drains
	sendDead                  // flushed
)

// sendEntry is one request of a send queue, posted and not completed.
type sendEntry struct {
	id       uint64
	op       verbs.Opcode
	signaled bool
	internal bool // the provider's own: never reported
	done     bool
	status   verbs.WCStatus
	byteLen  int
	key      uint32 // OpLocalInvalidate, OpBindMW
}

// sendQueue holds the posted requests, in order. Entries complete in order, although siw
// lets a Write overtake an RDMA Read.
//
// It has two locks, so that a goroutine can take completions while another one's post is in
// progress. posting is held during a post. mu protects the ring. If both are needed, posting
// is locked first.
type sendQueue struct {
	posting sync.Mutex
	phase   sendPhase // changes under posting
	// Storage for one call to the device, under posting.
	list []C.struct_rdmad_send
	sges []C.struct_ibv_sge

	mu         sync.Mutex
	ring       []sendEntry
	limit      int // of the consumer's requests
	internal   int // the provider's own outstanding requests, spareSends at most
	head, tail uint32
	// last is the position after the last request that the device has. Completions may
	// arrive before the call that gives it requests has returned.
	last   uint32
	failed bool // a completion was not a success: the other requests are flushed
	// probing means that a probe is outstanding: the entry before the position probed.
	probing bool
	probed  uint32
}

// enter sets the phase, after the post in progress.
func (s *sendQueue) enter(p sendPhase) {
	s.posting.Lock()
	defer s.posting.Unlock()
	s.phase = p
}

func (s *sendQueue) init(limit, sge int) {
	s.limit = limit
	s.ring = make([]sendEntry, driver.Slots(limit+spareSends))
	s.list = make([]C.struct_rdmad_send, 0, postBatch)
	s.sges = make([]C.struct_ibv_sge, 0, postBatch*max(sge, 1))
}

func (s *sendQueue) at(pos uint32) *sendEntry { return &s.ring[pos&uint32(len(s.ring)-1)] }

// outstanding returns how many of the consumer's requests are not completed.
func (s *sendQueue) outstanding() int { return int(s.tail-s.head) - s.internal }

// complete records that the device has completed the request at a position (modulo the
// mask). Earlier requests without a completion of their own are then done as well. Reads
// always have one.
func (s *sendQueue) complete(pos uint32, status verbs.WCStatus, byteLen int) {
	off := (pos - s.head) & positionMask
	if off >= s.tail-s.head {
		return
	}
	pos = s.head + off
	for p := s.head; p != pos; p++ {
		if e := s.at(p); !e.done && e.op != verbs.OpRDMARead {
			e.done = true
		}
	}
	e := s.at(pos)
	e.done, e.status, e.byteLen = true, status, byteLen
}

// reading reports whether an RDMA Read is outstanding. The connection then can't end in
// order.
func (s *sendQueue) reading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pos := s.head; pos != s.tail; pos++ {
		if e := s.at(pos); e.op == verbs.OpRDMARead && (!e.done || e.status != verbs.WCSuccess) {
			return true
		}
	}
	return false
}

// release fills in the next completion in order. more means that there may be others.
// report means that the consumer gets this one.
func (s *sendQueue) release(wc *verbs.WC, all bool) (more, report bool) {
	if s.head == s.tail {
		return false, false
	}
	e := s.at(s.head)
	if !e.done && !all {
		return false, false
	}
	if !e.done || s.failed {
		e.status = verbs.WCWRFlushErr
	}
	s.failed = s.failed || e.status != verbs.WCSuccess
	s.head++
	s.probing = s.probing && s.probed != s.head
	if e.internal {
		s.internal--
	}
	wc.ID, wc.Status, wc.Op = e.id, e.status, e.op.Completed()
	wc.ByteLen = 0
	if e.op == verbs.OpRDMARead {
		wc.ByteLen = e.byteLen
	}
	return true, !e.internal && (e.signaled || e.status != verbs.WCSuccess)
}
