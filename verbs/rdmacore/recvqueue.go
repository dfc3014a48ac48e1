//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"sync"

	"github.com/rdmad/rdmad/verbs/driver"
)

// recvQueue holds the posted Receives, in order.
type recvQueue struct {
	mu         sync.Mutex
	open       bool
	ring       []uint64 // the consumer's IDs
	limit      int
	head, tail uint32
	failed     bool

	list []C.struct_rdmad_recv
	sges []C.struct_ibv_sge
}

func (r *recvQueue) init(limit, sge int) {
	r.limit = limit
	r.ring = make([]uint64, driver.Slots(limit))
	r.list = make([]C.struct_rdmad_recv, 0, postBatch)
	r.sges = make([]C.struct_ibv_sge, 0, postBatch*max(sge, 1))
}

func (r *recvQueue) at(pos uint32) *uint64 { return &r.ring[pos&uint32(len(r.ring)-1)] }

func (r *recvQueue) outstanding() int { return int(r.tail - r.head) }

// waiting reports whether the Receive at a position (modulo the mask) is posted.
func (r *recvQueue) waiting(pos uint32) bool { return (pos-r.head)&positionMask < r.tail-r.head }
