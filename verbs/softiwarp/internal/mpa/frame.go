package mpa

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// FrameHeaderSize is the length of a request or reply frame without its
	// private data, in bytes (RFC 5044 §7.1.1).
	FrameHeaderSize = 20
	// MaxPrivateData is the largest PD_Length, in bytes (RFC 5044 §7.1.1).
	// The enhanced data counts as part of it.
	MaxPrivateData = 512
)

// Revisions of MPA: RFC 5044 and RFC 6581.
const (
	Revision1 = 1
	Revision2 = 2
)

const (
	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"

	flagMarkers  = 0x80
	flagCRC      = 0x40
	flagReject   = 0x20
	flagEnhanced = 0x10
	// The lower bits are reserved and ignored on receipt. Linux's siw uses 0x08 for "accepts
	// FPDUs larger than a TCP segment" if it is built so (try_gso); 6.1 and 6.12 are not.

	frameFlags    = 16
	frameRevision = 17
	framePDLength = 18
)

var (
	// ErrShort means that the input ends before the object does.
	ErrShort = errors.New("mpa: short input")
	// ErrKey means that the frame does not start with the key of its kind.
	ErrKey = errors.New("mpa: wrong key")
	// ErrRevision means that this package does not know the frame's revision.
	ErrRevision = errors.New("mpa: unknown revision")
	// ErrPrivateData means that PD_Length is over MaxPrivateData, or too
	// small for the enhanced data that the flags announce.
	ErrPrivateData = errors.New("mpa: bad private data length")
)

// Kind is the kind of a frame: request or reply.
type Kind uint8

// The two frames of an exchange.
const (
	Request Kind = iota
	Reply
)

func (k Kind) key() string {
	if k == Request {
		return requestKey
	}
	return replyKey
}

// Frame is an MPA request or reply frame (RFC 5044 §7.1.1, RFC 6581).
type Frame struct {
	Kind     Kind
	Revision uint8
	Markers  bool // M: the sender wants to receive markers
	CRC      bool // C: the sender wants CRCs used
	Reject   bool // R: the responder rejects the connection (reply only)
	// Enhanced is S: EnhancedData precedes the private data on the wire.
	Enhanced bool

	EnhancedData Enhanced
	PrivateData  []byte // the consumer's, without the enhanced data
}

// Size returns the length of the encoded frame in bytes.
func (f *Frame) Size() int {
	n := FrameHeaderSize + len(f.PrivateData)
	if f.Enhanced {
		n += EnhancedSize
	}
	return n
}

// Append appends the encoded frame to b. It returns ErrPrivateData if the private data
// together with the enhanced data exceeds MaxPrivateData.
func (f *Frame) Append(b []byte) ([]byte, error) {
	pd := f.Size() - FrameHeaderSize
	if pd > MaxPrivateData {
		return b, fmt.Errorf("%w: %d bytes", ErrPrivateData, pd)
	}
	b = append(b, f.Kind.key()...)
	b = append(b, f.flags(), f.Revision)
	b = binary.BigEndian.AppendUint16(b, uint16(pd))
	if f.Enhanced {
		b = f.EnhancedData.Append(b)
	}
	return append(b, f.PrivateData...), nil
}

func (f *Frame) flags() byte {
	var v byte
	if f.Markers {
		v |= flagMarkers
	}
	if f.CRC {
		v |= flagCRC
	}
	if f.Reject {
		v |= flagReject
	}
	if f.Enhanced {
		v |= flagEnhanced
	}
	return v
}

// FrameSize checks the fixed part of a frame of the given kind, which must be at the start
// of b. It returns the length of the whole frame in bytes, at most FrameHeaderSize +
// MaxPrivateData.
func FrameSize(kind Kind, b []byte) (int, error) {
	if len(b) < FrameHeaderSize {
		return 0, ErrShort
	}
	if string(b[:frameFlags]) != kind.key() {
		return 0, ErrKey
	}
	rev := b[frameRevision]
	if rev != Revision1 && rev != Revision2 {
		return 0, fmt.Errorf("%w: %d", ErrRevision, rev)
	}
	pd := int(binary.BigEndian.Uint16(b[framePDLength:]))
	enhanced := rev == Revision2 && b[frameFlags]&flagEnhanced != 0
	if pd > MaxPrivateData || (enhanced && pd < EnhancedSize) {
		return 0, fmt.Errorf("%w: %d bytes", ErrPrivateData, pd)
	}
	return FrameHeaderSize + pd, nil
}

// DecodeFrame decodes a frame of the given kind from the start of b and returns its length.
// In a revision 1 frame the S flag is a reserved bit, and DecodeFrame ignores it.
func DecodeFrame(kind Kind, b []byte) (Frame, int, error) {
	size, err := FrameSize(kind, b)
	if err != nil {
		return Frame{}, 0, err
	}
	if len(b) < size {
		return Frame{}, 0, ErrShort
	}
	flags := b[frameFlags]
	f := Frame{
		Kind:     kind,
		Revision: b[frameRevision],
		Markers:  flags&flagMarkers != 0,
		CRC:      flags&flagCRC != 0,
		Reject:   flags&flagReject != 0,
		Enhanced: flags&flagEnhanced != 0 && b[frameRevision] == Revision2,
	}
	pd := b[FrameHeaderSize:size:size]
	if f.Enhanced {
		f.EnhancedData = decodeEnhanced(pd)
		pd = pd[EnhancedSize:]
	}
	f.PrivateData = pd
	return f, size, nil
}
