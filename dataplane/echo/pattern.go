package echo

import (
	"encoding/binary"
	"sync"
)

// pattern is what READ answers with, as long as the longest answer. It is made
// when it is first needed.
var pattern = sync.OnceValue(func() []byte {
	b := make([]byte, MaxPayload)
	for off := 0; off < len(b); off += 4 {
		binary.BigEndian.PutUint32(b[off:], uint32(off))
	}
	return b
})

// Fill fills dst, at most MaxPayload bytes, with what READ answers: each
// four-byte word holds its own offset, big-endian, so that a byte in the wrong
// place shows.
func Fill(dst []byte) {
	copy(dst, pattern())
}
