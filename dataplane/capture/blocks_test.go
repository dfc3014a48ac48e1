package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// ngBlock is a pcapng block in a byte order.
func ngBlock(o binary.AppendByteOrder, kind uint32, body []byte) []byte {
	body = append(body[:len(body):len(body)], make([]byte, -len(body)&3)...)
	size := uint32(len(body) + blockLeast)
	return o.AppendUint32(append(o.AppendUint32(o.AppendUint32(nil, kind), size), body...), size)
}

// ngSection begins a pcapng section with a number of interfaces.
func ngSection(o binary.AppendByteOrder, interfaces int) []byte {
	head := o.AppendUint64(o.AppendUint16(o.AppendUint16(o.AppendUint32(nil, byteOrder), 1), 0), 1<<64-1)
	return append(ngBlock(o, blockSection, head), bytes.Repeat(ngBlock(o, blockInterface, []byte{1, 0, 0, 0, 0, 0, 0, 0}), interfaces)...)
}

// ngPacket is a packet of so many bytes.
func ngPacket(o binary.AppendByteOrder, size int) []byte {
	n := uint32(size)
	return ngBlock(o, blockEnhanced, append(o.AppendUint32(o.AppendUint32(make([]byte, 12), n), n), make([]byte, size)...))
}

// TestOtherBlocks checks that blocks without packets are left out, and that long ones end the reading:
// gopacket would keep them.
func TestOtherBlocks(t *testing.T) {
	for _, o := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		const names, secrets = 4, 10
		name := bytes.Repeat(o.AppendUint32(o.AppendUint16(o.AppendUint16(nil, 1), 8), 7), 8<<20/12)
		other := slices.Concat(ngBlock(o, names, name), ngBlock(o, secrets, make([]byte, 8<<20)), ngBlock(o, 0xbad, nil))
		good := slices.Concat(ngSection(o, 2), other, ngPacket(o, 60), other, ngSection(o, maxInterfaces), ngPacket(o, maxPacket-100))
		for what, c := range map[string]struct {
			file    []byte
			packets uint64
			err     string // "" for none
		}{
			"good":                    {good, 2, ""},
			"cut in another block":    {append(good, other[:3<<20]...), 2, "ends within packet 3"},
			"cut in a head":           {append(good, other[:9]...), 2, "ends within packet 3"},
			"long packet":             {append(good, ngPacket(o, maxPacket)...), 2, "packet 3: a block has"},
			"many interfaces":         {append(ngSection(o, maxInterfaces+1), ngPacket(o, 60)...), 0, "more than 1024 interfaces"},
			"block without an end":    {append(good, o.AppendUint64(nil, 8)...), 2, "ends within packet 3"},
			"block shorter than that": {append(good, make([]byte, 64)...), 2, "a length of 0 bytes"},
		} {
			before := allocated()
			r, err := Check(t.Context(), bytes.NewReader(c.file), Options{})
			if r == nil || r.Packets != c.packets || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %+v, %v", what, r, err)
			}
			if errors.Is(err, io.ErrUnexpectedEOF) != strings.Contains(c.err, "ends within") {
				t.Errorf("%s: %v", what, err)
			}
			if used := allocated() - before; used > 12<<20 {
				t.Errorf("%s: %d bytes allocated", what, used)
			}
		}
	}
}
