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

// Fill fills dst, at most MaxPayload bytes, with the answer of READ: each four-byte word holds
// its own offset, big-endian, so that a reader detects a byte in the wrong place.
func Fill(dst []byte) {
	copy(dst, pattern())
}
