package capture

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmad/rdmad/dataplane/iwarp"
)

// Enhanced data of MPA frames (RFC 6581 §4).
const (
	mpaEnhancedSize = 4
	mpaPeerToPeer   = 0x80 // A, in the first byte
)

// handshake is a decoded MPA request or reply frame (RFC 5044 §7.1).
type handshake struct {
	markers, crc, rejected, peerToPeer bool
	// private is the private data without the enhanced data of RFC 6581.
	private []byte
}

// decodeHandshake decodes an MPA frame that begins with key. size is the size
// of the frame in bytes, or 0 if more bytes are needed.
func decodeHandshake(b []byte, key string) (h handshake, size int, err error) {
	n := min(len(b), len(key))
	if string(b[:n]) != key[:n] {
		return h, 0, errNoMPA
	}
	if len(b) < iwarp.MPAFrameSize {
		return h, 0, nil
	}
	flags, revision := b[16], b[17]
	private := int(binary.BigEndian.Uint16(b[18:]))
	enhanced := revision == 2 && flags&iwarp.MPAEnhanced != 0
	if private > iwarp.MPAMostPrivate || enhanced && private < mpaEnhancedSize {
		return h, 0, fmt.Errorf("an MPA frame has %d bytes of private data", private)
	}
	size = iwarp.MPAFrameSize + private
	if len(b) < size {
		return h, 0, nil
	}
	h = handshake{
		markers: flags&iwarp.MPAMarkers != 0, crc: flags&iwarp.MPACRC != 0, rejected: flags&iwarp.MPAReject != 0,
		private: append([]byte{}, b[iwarp.MPAFrameSize:size]...),
	}
	if enhanced {
		h.peerToPeer = h.private[0]&mpaPeerToPeer != 0
		h.private = h.private[mpaEnhancedSize:]
	}
	return h, size, nil
}
