package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of pcapng blocks (draft-ietf-opsawg-pcapng).
const (
	blockSection    = magicNg // the same in both byte orders
	blockInterface  = 1
	blockPacket     = 2
	blockSimple     = 3
	blockStatistics = 5
	blockEnhanced   = 6

	blockHead  = 8  // bytes: type and length
	blockLeast = 12 // with the length at its end
	byteOrder  = 0x1a2b3c4d
)

// blocks passes on the blocks of a pcapng file that hold packets, and what belongs to them. gopacket
// would keep others, such as names of addresses, and blocks of any length.
type blocks struct {
	r          io.Reader
	order      binary.ByteOrder // of the section
	head       [blockLeast]byte
	next       []byte // of head, to pass on
	rest       int64  // bytes of the block that follow
	interfaces int    // of the section
}

// Read implements io.Reader.
func (b *blocks) Read(p []byte) (n int, err error) {
	for len(b.next) == 0 && b.rest == 0 {
		if err := b.begin(); err != nil {
			return 0, err
		}
	}
	if len(b.next) > 0 {
		n = copy(p, b.next)
		b.next = b.next[n:]
		return n, nil
	}
	n, err = b.r.Read(p[:min(int64(len(p)), b.rest)])
	b.rest -= int64(n)
	return n, err
}

// begin reads the head of a block, and skips the block unless it is passed on.
func (b *blocks) begin() error {
	if n, err := io.ReadFull(b.r, b.head[:]); err != nil {
		b.next = b.head[:n] // the end, or within a block
		if n > 0 {
			return nil
		}
		return err
	}
	kind := binary.BigEndian.Uint32(b.head[:])
	if kind == blockSection {
		b.interfaces, b.order = 0, binary.LittleEndian
		if binary.BigEndian.Uint32(b.head[blockHead:]) == byteOrder {
			b.order = binary.BigEndian
		}
	} else {
		kind = b.order.Uint32(b.head[:])
	}
	b.rest = int64(b.order.Uint32(b.head[4:])) - blockLeast
	if b.rest < 0 {
		return fmt.Errorf("a block has a length of %d bytes", b.rest+blockLeast)
	}
	switch kind {
	case blockInterface:
		if b.interfaces++; b.interfaces > maxInterfaces {
			return fmt.Errorf("there are more than %d interfaces", maxInterfaces)
		}
	case blockSection, blockPacket, blockSimple, blockStatistics, blockEnhanced:
	default:
		_, err := io.CopyN(io.Discard, b.r, b.rest)
		if b.rest = 0; errors.Is(err, io.EOF) { // gopacket finds the end within a block without a type
			clear(b.head[:4])
			b.next, err = b.head[:], nil
		}
		return err
	}
	if b.rest > maxPacket {
		return fmt.Errorf("a block has %d bytes, more than %d", b.rest+blockLeast, maxPacket)
	}
	b.next = b.head[:]
	return nil
}
