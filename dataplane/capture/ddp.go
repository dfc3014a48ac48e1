package capture

import "encoding/binary"

// Sizes of headers, in bytes (RFC 5041 §4, RFC 5040 §4).
const (
	taggedSize      = 14
	untaggedSize    = 18
	readRequestSize = 28
	terminateSize   = 4
	// prefixSize is the part that all RPC-over-RDMA headers have: XID,
	// version, credits, type.
	prefixSize = 16
)

// Opcodes (RFC 5040 §4.3).
const (
	opWrite = iota
	opReadRequest
	opReadResponse
	opSend
	opSendInv
	opSendSE
	opSendSEInv
	opTerminate
)

// Queues of untagged messages (RFC 5040 §5.2).
const (
	queueSend = iota
	queueReadRequest
	queueTerminate
	queues
)

// queueOf gives the queue of each opcode, -1 of tagged ones.
var queueOf = [...]int{-1, queueReadRequest, -1, queueSend, queueSend, queueSend, queueSend, queueTerminate}

// ddp is the header of a DDP segment.
type ddp struct {
	last bool
	op   uint8
	size int // of the header

	stag   uint32 // tagged; of Sends the STag to invalidate
	offset uint64 // tagged

	queue, msn, mo uint32 // untagged
}

// header is what a ULPDU's header is.
type header uint8

const (
	good    header = iota
	unknown        // the capture lacks some of it
	bad            // it is no DDP segment
)

// decodeDDP decodes the header of a ULPDU.
func decodeDDP(u ulpdu) (h ddp, what header) {
	if len(u.data) < 2 {
		return h, missingOr(u.size < 2)
	}
	control, rdmap := u.data[0], u.data[1]
	h.last, h.op = control&0x40 != 0, rdmap&0x0f
	if control&0x3f != 1 || rdmap&0xf0 != 0x40 || int(h.op) >= len(queueOf) || (control&0x80 != 0) != (queueOf[h.op] < 0) {
		return h, bad
	}
	if h.size = untaggedSize; queueOf[h.op] < 0 {
		h.size = taggedSize
	}
	if len(u.data) < h.size {
		return h, missingOr(u.size < h.size)
	}
	h.stag = binary.BigEndian.Uint32(u.data[2:])
	if h.size == taggedSize {
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

// readRequest is the payload of a Read Request (RFC 5040 §4.4).
type readRequest struct {
	sinkTag, size, sourceTag uint32
	sink, source             uint64
	rtr                      bool // an RTR indication
}

func decodeReadRequest(b []byte) readRequest {
	return readRequest{
		sinkTag: binary.BigEndian.Uint32(b), sink: binary.BigEndian.Uint64(b[4:]), size: binary.BigEndian.Uint32(b[12:]),
		sourceTag: binary.BigEndian.Uint32(b[16:]), source: binary.BigEndian.Uint64(b[20:]),
	}
}

// decodeTerminate gives layer, type and code (RFC 5040 §4.8). Linux siw has
// the nibbles of the first byte and the header bits of the third swapped.
func decodeTerminate(b []byte) (layer, kind, code uint8) {
	layer, kind, code = b[0]>>4, b[0]&0x0f, b[1]
	linux := b[2]&0xe0 == 0 && b[2]&0x07 != 0
	if b[2] == 0 { // no bits to go by
		linux = !terminateKnown(layer, kind) && terminateKnown(kind, layer)
	}
	if linux {
		return kind, layer, code
	}
	return layer, kind, code
}

// terminateKnown says whether RFC 5040 §4.8 has a type for a layer.
func terminateKnown(layer, kind uint8) bool {
	most := [...]uint8{2, 3, 0} // RDMA, DDP, LLP
	return int(layer) < len(most) && kind <= most[layer]
}
