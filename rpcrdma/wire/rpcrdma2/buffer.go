package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// TargetableFlag marks a buffer segment into which items may be placed (XMRSFLAG_DDP).
const TargetableFlag = 0x01

// BufferGroup is a run of equal segments of a receive buffer (xmrbs_group).
type BufferGroup struct {
	Count  uint32
	Length uint32 // of each, in bytes
	Align  uint32 // bytes
	Flags  uint32
}

// Buffer is the structure of a receive buffer (xmrbs_buf).
type Buffer struct {
	Length uint32 // total, in bytes
	Groups []BufferGroup
}

// Append appends the encoded structure.
func (b *Buffer) Append(dst []byte) []byte {
	dst = xdr.AppendUint32s(dst, b.Length, uint32(len(b.Groups)))
	for _, g := range b.Groups {
		dst = xdr.AppendUint32s(dst, g.Count, g.Length, g.Align, g.Flags)
	}
	return dst
}

// Decode replaces the structure with the one in data, like Body's Decode.
func (b *Buffer) Decode(data []byte) error {
	d := xdr.NewDecoder(data)
	b.Length = d.Uint32()
	b.Groups = b.Groups[:0]
	for range d.Count(MaxGroups, groupSize) {
		b.Groups = append(b.Groups, BufferGroup{Count: d.Uint32(), Length: d.Uint32(), Align: d.Uint32(), Flags: d.Uint32()})
	}
	return finish(&d)
}
