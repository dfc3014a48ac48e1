package softiwarp

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

const (
	// copyLimit is the largest payload, in bytes, that is copied next to the headers.
	// For such a payload a copy is cheaper than another element of a vectored write.
	copyLimit = 8 << 10
	// maxVector is the largest number of elements of one vectored write. With more,
	// unix.Writev allocates on the heap.
	maxVector = 8
	// vectorPerFPDU is the number of elements that an FPDU with payload in place takes:
	// the bytes copied before it, and its payload. The last trailer is one more.
	vectorPerFPDU = 2
	maxPins       = (maxVector - 1) / vectorPerFPDU
)

// batch is a sequence of FPDUs for one system call, at most batchSize bytes.
//
// Large payloads are sent from where they are. The exception, with CRC on, is memory that
// is exposed to peers: it is copied, so that the checksum matches the bytes sent. Otherwise
// one peer could make another peer's connection fail.
type batch struct {
	buffers  *buffers
	scratch  *buffer
	used     int // bytes of scratch in use
	runStart int // start of the copied bytes that are not yet in vector
	total    int // bytes of the whole batch, headers and trailers included

	crc bool
	// The checksum of the FPDU being built. It covers the FPDU up to scratch[summed].
	sum    uint32
	summed int

	vector [][]byte // in scratch.vector

	// Regions that vector refers to.
	pins  [maxPins]*driver.Region
	npins int
}

func (b *batch) init(s *buffers) { b.buffers = s }

// room reports whether an FPDU with the given header and payload lengths, in bytes,
// fits. inPlace means that the payload is not copied.
func (b *batch) room(header, payload int, inPlace bool) bool {
	if b.total+mpa.FPDUSize(header+payload) > batchSize {
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
		b.scratch = b.buffers.get(batchSize)
		b.vector = b.scratch.vector[:0]
	}
	b.sum, b.summed = 0, b.used
	out := b.scratch.mem[b.used:b.used]
	out = binary.BigEndian.AppendUint16(out, uint16(h.Size()+n))
	out = h.Append(out)
	b.used += len(out)
	b.total += mpa.FPDUSize(h.Size() + n)
}

// copyIn copies payload into the batch.
func (b *batch) copyIn(p []byte) {
	b.used += copy(b.scratch.mem[b.used:], p)
}

// refer adds payload without copying it. The payload must not change until the batch
// is sent.
func (b *batch) refer(p []byte) {
	if b.crc {
		b.sumUp()
		b.sum = mpa.Checksum(b.sum, p)
	}
	b.vector = append(b.vector, b.scratch.mem[b.runStart:b.used], p)
	b.runStart = b.used
}

// sumUp adds the copied bytes since the last call to the checksum.
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

// finish returns the batch as a vector for one vectored write.
func (b *batch) finish() [][]byte {
	if b.used > b.runStart {
		b.vector = append(b.vector, b.scratch.mem[b.runStart:b.used])
		b.runStart = b.used
	}
	return b.vector
}

// keep returns a buffer with the batch's bytes after the first n, at [from:to].
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

// pin records r, which the caller has pinned. reset unpins it.
func (b *batch) pin(r *driver.Region) {
	b.pins[b.npins] = r
	b.npins++
}

// reset empties the batch, unpins its regions and returns its buffer.
func (b *batch) reset() {
	for i := range b.npins {
		b.pins[i].Unpin()
		b.pins[i] = nil
	}
	clear(b.vector)
	b.vector = nil
	b.used, b.runStart, b.total, b.npins = 0, 0, 0, 0
	if b.scratch != nil {
		b.scratch.put()
		b.scratch = nil
	}
}
