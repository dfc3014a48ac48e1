package capture

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/dataplane/iwarp"
)

const (
	terminateSize = 4 // RFC 5040 §4.8
	// prefixSize is the size of the fixed part of all RPC-over-RDMA headers:
	// XID, version, credits, type.
	prefixSize = 16
)

// queueOf is the queue of each opcode, or -1 for tagged messages.
var queueOf = [...]int{-1, iwarp.QueueReadRequest, -1, iwarp.QueueSend, iwarp.QueueSend, iwarp.QueueSend, iwarp.QueueSend, iwarp.QueueTerminate}

// ddp is the header of a DDP segment.
type ddp struct {
	last bool
	op   uint8
	size int // of the header, in bytes

	stag   uint32 // tagged: the STag; Sends: the STag to invalidate
	offset uint64 // tagged

	queue, msn, mo uint32 // of untagged messages
}

// header says whether a ULPDU begins with a DDP header.
type header uint8

const (
	good    header = iota
	unknown        // the capture lacks a part of it
	bad            // the ULPDU is no DDP segment
)

// decodeDDP decodes the DDP header of a ULPDU (RFC 5041 §4).
func decodeDDP(u ulpdu) (h ddp, what header) {
	if len(u.data) < 2 {
		return h, missingOr(u.size < 2)
	}
	control, rdmap := u.data[0], u.data[1]
	h.last, h.op = control&0x40 != 0, rdmap&0x0f
	if control&0x3f != 1 || rdmap&0xf0 != 0x40 || int(h.op) >= len(queueOf) || (control&0x80 != 0) != (queueOf[h.op] < 0) {
		return h, bad
	}
	if h.size = iwarp.UntaggedSize; queueOf[h.op] < 0 {
		h.size = iwarp.TaggedSize
	}
	if len(u.data) < h.size {
		return h, missingOr(u.size < h.size)
	}
	h.stag = binary.BigEndian.Uint32(u.data[2:])
	if h.size == iwarp.TaggedSize {
		h.offset = binary.BigEndian.Uint64(u.data[6:])
		return h, good
	}
	h.queue, h.msn, h.mo = binary.BigEndian.Uint32(u.data[6:]), binary.BigEndian.Uint32(u.data[10:]), binary.BigEndian.Uint32(u.data[14:])
	if int(h.queue) != queueOf[h.op] {
		return h, bad
	}
	return h, good
}

func missingOr(short bool) header {
	if short {
		return bad
	}
	return unknown
}

// decodeTerminate returns layer, type and code (RFC 5040 §4.8). Linux siw swaps the
// nibbles of the first byte, and has the header bits at the other end of the third.
func decodeTerminate(b []byte) (layer, kind, code uint8) {
	layer, kind, code = b[0]>>4, b[0]&0x0f, b[1]
	linux := b[2]&0xe0 == 0 && b[2]&0x07 != 0
	if b[2] == 0 { // no header bits decide
		linux = !terminateKnown(layer, kind) && terminateKnown(kind, layer)
	}
	if linux {
		return kind, layer, code
	}
	return layer, kind, code
}

// terminateKnown reports whether RFC 5040 §4.8 defines the type for the layer.
func terminateKnown(layer, kind uint8) bool {
	most := [...]uint8{2, 3, 0} // RDMA, DDP, LLP
	return int(layer) < len(most) && kind <= most[layer]
}
