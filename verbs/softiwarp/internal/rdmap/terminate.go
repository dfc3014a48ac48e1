package rdmap

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
)

// MaxTerminateSize is the length of the longest Terminate payload, in bytes: control
// word, segment length, an untagged header and a Read Request.
const MaxTerminateSize = terminateControlSize + segmentLengthSize + ddp.UntaggedSize + ReadRequestSize

const (
	terminateControlSize = 4
	segmentLengthSize    = 2

	// Header control bits (RFC 5040 §4.8). Each announces a part after the control word.
	headerSegment = 0x80 // M: the terminated segment's length
	headerDDP     = 0x40 // D: its DDP header
	headerRDMAP   = 0x20 // R: its RDMAP header, a Read Request
)

// Term is a Terminate message (RFC 5040 §4.8).
type Term struct {
	Fault

	// The terminated segment, as far as the sender included it.
	HasSegment    bool
	SegmentLength uint16 // bytes
	HasDDP        bool
	DDP           ddp.Header
	HasRead       bool
	Read          Read
}

// Append appends the encoded payload to b.
func (t *Term) Append(b []byte) []byte {
	var header byte
	if t.HasSegment {
		header |= headerSegment
	}
	if t.HasDDP {
		header |= headerDDP
	}
	if t.HasRead {
		header |= headerRDMAP
	}
	b = append(b, t.Layer<<4|t.Type&0x0f, t.Code, header, 0)
	if t.HasSegment {
		b = binary.BigEndian.AppendUint16(b, t.SegmentLength)
	}
	if t.HasDDP {
		b = t.DDP.Append(b)
	}
	if t.HasRead {
		b = t.Read.Append(b)
	}
	return b
}

// Decode decodes a Terminate payload, which must be all of b. It accepts RFC 5040's bit
// order and the swapped nibbles of Linux siw. It ignores announced headers that are
// missing, because a Terminate always ends the connection.
func (t *Term) Decode(b []byte) (int, error) {
	*t = Term{}
	if len(b) < terminateControlSize {
		return 0, ErrShort
	}
	header := t.decodeControl(b)
	rest := b[terminateControlSize:]
	if header&headerSegment != 0 && len(rest) >= segmentLengthSize {
		t.HasSegment = true
		t.SegmentLength = binary.BigEndian.Uint16(rest)
		rest = rest[segmentLengthSize:]
	}
	if header&headerDDP != 0 {
		rest = t.decodeDDP(rest)
	}
	// For a Send, Linux also sets R, but no Read Request follows.
	if header&headerRDMAP != 0 && t.HasDDP && !t.DDP.Tagged && t.DDP.QN == ddp.QueueReadRequest {
		_, err := t.Read.Decode(rest)
		t.HasRead = err == nil
	}
	return len(b), nil
}

// decodeDDP decodes the terminated DDP header, unless it is cut off, and returns the
// bytes after it.
func (t *Term) decodeDDP(b []byte) []byte {
	n, err := t.DDP.Decode(b)
	t.HasDDP = err == nil
	if !t.HasDDP {
		t.DDP = ddp.Header{}
	}
	return b[n:]
}

// decodeControl decodes the control word and returns the header control bits in RFC
// 5040's order. RFC 5040 puts the layer into the upper nibble and the header bits into
// the upper bits. Linux siw does the opposite for both. decodeControl chooses the order
// in which the word is valid.
func (t *Term) decodeControl(b []byte) byte {
	const standard, swapped = headerSegment | headerDDP | headerRDMAP, 0x07
	asRFC := Fault{Layer: b[0] >> 4, Type: b[0] & 0x0f, Code: b[1]}
	asLinux := Fault{Layer: b[0] & 0x0f, Type: b[0] >> 4, Code: b[1]}
	linux := b[2]&standard == 0 && b[2]&swapped != 0
	if b[2] == 0 {
		// Without headers, the codes may still show the order.
		linux = !asRFC.Known() && asLinux.Known()
	}
	if !linux {
		t.Fault = asRFC
		return b[2]
	}
	t.Fault = asLinux
	var header byte
	for i, bit := range [...]byte{headerSegment, headerDDP, headerRDMAP} {
		if b[2]&(1<<i) != 0 {
			header |= bit
		}
	}
	return header
}
