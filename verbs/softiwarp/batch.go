package softiwarp

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

const (
	// copyLimit is the payload, in bytes, up to which copying beside the
	// headers is cheaper than one more element of a vectored write.
	copyLimit = 8 << 10
	// maxVector is the most elements of one vectored write: up to here
	// unix.Writev needs no memory from the heap.
	maxVector = 8
	// vectorPerFPDU is how many elements an FPDU with payload in place takes: the
	// bytes copied before it, and its payload. The last trailer is one more.
	vectorPerFPDU = 2
	maxPins       = (maxVector - 1) / vectorPerFPDU
)

// batch is a sequence of FPDUs for one system call, at most bufferSize bytes.
//
// Large payloads stay where they are. The exception is memory that peers may
// write to while CRC is on: it is copied, so that the checksum fits the bytes
// sent, and no peer can make another's connection fail.
type batch struct {
	crc      bool
	buffers  *buffers
	scratch  *buffer
	used     int // of scratch
	runStart int // where the run of copied bytes not yet in vector starts
	total    int // bytes of the whole batch

	// The checksum of the FPDU being built, up to scratch[summed].
	sum    uint32
	summed int

	vector [][]byte
	store  [maxVector][]byte

	// Regions that the vector refers to.
	pins  [maxPins]*region
	npins int
}

func (b *batch) init(s *buffers) { b.buffers, b.vector = s, b.store[:0] }

// room says whether an FPDU with the given header and payload fits; inPlace
// says that its payload stays where it is.
func (b *batch) room(header, payload int, inPlace bool) bool {
	if b.total+mpa.FPDUSize(header+payload) > bufferSize {
		return false
	}
	return !inPlace || b.vectorRoom()
}

func (b *batch) vectorRoom() bool {
	return len(b.vector)+vectorPerFPDU+1 <= maxVector
}

// begin starts an FPDU with n bytes of payload.
func (b *batch) begin(h *ddp.Header, n int) {
	if b.scratch == nil {
		b.scratch = b.buffers.get(bufferSize)
	}
	b.sum, b.summed = 0, b.used
	out := b.scratch.mem[b.used:b.used]
	out = binary.BigEndian.AppendUint16(out, uint16(h.Size()+n))
	out = h.Append(out)
	b.used += len(out)
	b.total += mpa.FPDUSize(h.Size() + n)
}

// copyIn adds payload by copying.
func (b *batch) copyIn(p []byte) {
	b.used += copy(b.scratch.mem[b.used:], p)
}

// refer adds payload that stays where it is until the batch is sent.
func (b *batch) refer(p []byte) {
	if b.crc {
		b.sumUp()
		b.sum = mpa.Checksum(b.sum, p)
	}
	b.vector = append(b.vector, b.scratch.mem[b.runStart:b.used], p)
	b.runStart = b.used
}

// sumUp adds the copied bytes to the checksum.
func (b *batch) sumUp() {
	b.sum = mpa.Checksum(b.sum, b.scratch.mem[b.summed:b.used])
	b.summed = b.used
}

// end finishes the FPDU whose ULPDU has n bytes.
func (b *batch) end(n int) {
	if b.crc {
		b.sumUp()
	}
	b.used += len(mpa.AppendTrailer(b.scratch.mem[b.used:b.used], n, b.sum, b.crc))
}

// finish gives the batch as a vector.
func (b *batch) finish() [][]byte {
	if b.used > b.runStart {
		b.vector = append(b.vector, b.scratch.mem[b.runStart:b.used])
		b.runStart = b.used
	}
	return b.vector
}

// keep gives the batch without its first n bytes in a buffer of its own.
func (b *batch) keep(n int) (left *buffer, from, to int) {
	if len(b.vector) == 1 {
		left, b.scratch = b.scratch, nil
		return left, n, b.used
	}
	left = b.buffers.get(b.total - n)
	for _, p := range b.vector {
		skip := min(n, len(p))
		n -= skip
		to += copy(left.mem[to:], p[skip:])
	}
	return left, 0, to
}

// pin keeps r, which the caller has pinned, until the batch is sent.
func (b *batch) pin(r *region) {
	b.pins[b.npins] = r
	b.npins++
}

// reset empties the batch and ends its references.
func (b *batch) reset() {
	for i := range b.npins {
		b.pins[i].unpin()
		b.pins[i] = nil
	}
	clear(b.vector)
	b.vector = b.store[:0]
	b.used, b.runStart, b.total, b.npins = 0, 0, 0, 0
	if b.scratch != nil {
		b.scratch.put()
		b.scratch = nil
	}
}
