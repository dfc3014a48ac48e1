package capture

import (
	"encoding/binary"
	"fmt"
)

// Keys and flags of MPA frames (RFC 5044 §7.1.1, RFC 6581 §4).
const (
	mpaRequest = "MPA ID Req Frame"
	mpaReply   = "MPA ID Rep Frame"

	mpaMarkers  = 0x80
	mpaCRC      = 0x40
	mpaReject   = 0x20
	mpaEnhanced = 0x10
	// Bits below are reserved. Newer Linux kernels set 0x08 to say that they
	// take FPDUs which are larger than a TCP segment.

	mpaFrameSize    = 20
	mpaMostPrivate  = 512
	mpaEnhancedSize = 4
	mpaPeerToPeer   = 0x80 // A, in the first byte of the enhanced data
)

// handshake is an MPA frame.
type handshake struct {
	markers, crc, rejected, peerToPeer bool
	// private is the consumer's part of the private data.
	private []byte
}

// decodeHandshake decodes a frame with a key. size is 0 when more is needed.
func decodeHandshake(b []byte, key string) (h handshake, size int, err error) {
	n := min(len(b), len(key))
	if string(b[:n]) != key[:n] {
		return h, 0, errNoMPA
	}
	if len(b) < mpaFrameSize {
		return h, 0, nil
	}
	flags, revision := b[16], b[17]
	private := int(binary.BigEndian.Uint16(b[18:]))
	enhanced := revision == 2 && flags&mpaEnhanced != 0
	if private > mpaMostPrivate || enhanced && private < mpaEnhancedSize {
		return h, 0, fmt.Errorf("an MPA frame has %d bytes of private data", private)
	}
	size = mpaFrameSize + private
	if len(b) < size {
		return h, 0, nil
	}
	h = handshake{
		markers: flags&mpaMarkers != 0, crc: flags&mpaCRC != 0, rejected: flags&mpaReject != 0,
		private: append([]byte{}, b[mpaFrameSize:size]...),
	}
	if enhanced {
		h.peerToPeer = h.private[0]&mpaPeerToPeer != 0
		h.private = h.private[mpaEnhancedSize:]
	}
	return h, size, nil
}
