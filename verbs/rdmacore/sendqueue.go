//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Numbers that completions carry: the queue pair's in the upper half; in the
// lower one bit for the receive queue and the position in the queue.
const (
	recvBit      = 1 << 31
	positionMask = recvBit - 1
	// spareSends are places of the device's send queue beyond the consumer's:
	// for what awaitPeer posts, for a probe, and for the marker of an orderly end.
	spareSends = mostNudges + 2
)

func numOf(wrID uint64) uint32 { return uint32(wrID >> 32) }

// postBatch is how many requests a device is given at once.
const postBatch = 32

// sendPhase says what becomes of requests that are posted.
type sendPhase uint8

const (
	sendIdle sendPhase = iota // not connected: refused
	sendOpen                  // given to the device
	sendHeld                  // kept until the end: the queue pair drains
	sendDead                  // flushed
)

// sendEntry is one request of a send queue, posted and not completed.
type sendEntry struct {
	id       uint64
	op       verbs.Opcode
	signaled bool
	internal bool // ours: never reported
	done     bool
	status   verbs.WCStatus
	byteLen  int
	key      uint32 // OpLocalInvalidate, OpBindMW
}

// sendQueue is what was posted, in order. Entries complete in order: siw lets a
// Write overtake an RDMA Read.
type sendQueue struct {
	mu         sync.Mutex
	phase      sendPhase
	ring       []sendEntry
	limit      int // of the consumer's
	internal   int // of ours among those outstanding, spareSends at most
	head, tail uint32
	// last is the position after the last request that the device has.
	last   uint32
	failed bool // a completion was not a success: the rest are flushed
	// probing says that a probe is out, which is the entry before probed.
	probing bool
	probed  uint32

	// What one call of the device takes.
	list []C.struct_rdmad_send
	sges []C.struct_ibv_sge
}

func (s *sendQueue) init(limit, sge int) {
	s.limit = limit
	s.ring = make([]sendEntry, roundUp(limit+spareSends))
	s.list = make([]C.struct_rdmad_send, 0, postBatch)
	s.sges = make([]C.struct_ibv_sge, 0, postBatch*max(sge, 1))
}

// roundUp gives the next power of two.
func roundUp(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

func (s *sendQueue) at(pos uint32) *sendEntry { return &s.ring[pos&uint32(len(s.ring)-1)] }

// outstanding is how many of the consumer's requests are not completed.
func (s *sendQueue) outstanding() int { return int(s.tail-s.head) - s.internal }

// complete notes that the device has completed the request at a position
// (modulo the mask). Requests before it that ask for no completion of their own
// were carried out; Reads always ask.
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

// reading says whether an RDMA Read is under way: an end is then no orderly one.
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

// release gives the next completion in order for the queue pair's owner; more
// says that there may be others, report that this one is to be told.
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
