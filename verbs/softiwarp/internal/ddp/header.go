package ddp

import (
	"encoding/binary"
	"errors"
)

// Header lengths in bytes. They include the RDMAP control byte.
const (
	TaggedSize   = 14
	UntaggedSize = 18
)

const (
	// Version is the DDP version of RFC 5041.
	Version = 1

	flagTagged  = 0x80
	flagLast    = 0x40
	versionMask = 0x03

	offControl = 0
	offULP     = 1

	offSTag = 2
	offTO   = 6

	offULP2 = 2 // 32 bits reserved for the ULP
	offQN   = 6
	offMSN  = 10
	offMO   = 14
)

// Queue numbers that RDMAP uses (RFC 5040 §4.2).
const (
	QueueSend        = 0
	QueueReadRequest = 1
	QueueTerminate   = 2
)

var (
	// ErrShort means that the segment is shorter than its header.
	ErrShort = errors.New("ddp: short segment")
	// ErrVersion means that the DDP version is not 1.
	ErrVersion = errors.New("ddp: unknown version")
)

// Header is a decoded segment header. Tagged decides which fields are valid. The payload
// starts Size bytes after the header's start.
type Header struct {
	Tagged bool
	Last   bool  // L: the message's last segment
	ULP    uint8 // RDMAP control

	// Tagged buffer model (RFC 5041 §4.2).
	STag uint32
	TO   uint64

	// Untagged buffer model (RFC 5041 §4.3).
	ULP2 uint32 // RDMAP: the STag to invalidate
	QN   uint32
	MSN  uint32
	MO   uint32
}

// Size returns the length of the encoded header in bytes.
func (h *Header) Size() int {
	if h.Tagged {
		return TaggedSize
	}
	return UntaggedSize
}

// Append appends the encoded header to b.
func (h *Header) Append(b []byte) []byte {
	control := byte(Version)
	if h.Last {
		control |= flagLast
	}
	if h.Tagged {
		b = append(b, control|flagTagged, h.ULP)
		b = binary.BigEndian.AppendUint32(b, h.STag)
		return binary.BigEndian.AppendUint64(b, h.TO)
	}
	b = append(b, control, h.ULP)
	b = binary.BigEndian.AppendUint32(b, h.ULP2)
	b = binary.BigEndian.AppendUint32(b, h.QN)
	b = binary.BigEndian.AppendUint32(b, h.MSN)
	return binary.BigEndian.AppendUint32(b, h.MO)
}

// Decode decodes the header at the start of b into h and returns its length. It ignores
// reserved bits. With ErrVersion it still sets Tagged and Last, because the Terminate
// in response depends on the buffer model.
func (h *Header) Decode(b []byte) (int, error) {
	*h = Header{}
	if len(b) == 0 {
		return 0, ErrShort
	}
	control := b[offControl]
	h.Tagged = control&flagTagged != 0
	h.Last = control&flagLast != 0
	if control&versionMask != Version {
		return 0, ErrVersion
	}
	if len(b) < h.Size() {
		return 0, ErrShort
	}
	h.ULP = b[offULP]
	if h.Tagged {
		h.STag = binary.BigEndian.Uint32(b[offSTag:])
		h.TO = binary.BigEndian.Uint64(b[offTO:])
		return TaggedSize, nil
	}
	h.ULP2 = binary.BigEndian.Uint32(b[offULP2:])
	h.QN = binary.BigEndian.Uint32(b[offQN:])
	h.MSN = binary.BigEndian.Uint32(b[offMSN:])
	h.MO = binary.BigEndian.Uint32(b[offMO:])
	return UntaggedSize, nil
}
