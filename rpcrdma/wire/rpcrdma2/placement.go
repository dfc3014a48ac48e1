package rpcrdma2

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Placement is how an item is sent separately from the payload stream (xmddp_type).
type Placement uint32

// The placements.
const (
	ExplicitRDMA Placement = 1 // XMDTYPE_EXRW: RDMA Read or Write
	TargetBuffer Placement = 2 // XMDTYPE_TBSN: in segments of the receive buffer
	Choice       Placement = 3 // either of these; only in a direction
	BySize       Placement = 4 // the first from a certain size on; only in a direction
	TooShort     Placement = 5 // XMDTYPE_TOOSHORT: it stayed in the payload stream
	NoItem       Placement = 6 // XMDTYPE_NOITEM: the response has no such item
)

// Item is an item removed from the payload stream, or the outcome of a direction
// (xmddp_mitem).
type Item struct {
	Disp   uint32 // position in the virtual XDR stream
	Length uint32 // bytes
	Place  Placement

	Segments []Segment // ExplicitRDMA
	// For TargetBuffer: the item starts at Offset of buffer segment Targets[0] and
	// continues in the others.
	Offset  uint32
	Targets []uint32
}

func (it *Item) size() int {
	n := 3 * wordSize
	switch it.Place {
	case ExplicitRDMA:
		n += wordSize + segmentSize*len(it.Segments)
	case TargetBuffer:
		n += 2*wordSize + wordSize*len(it.Targets)
	}
	return n
}

func (it *Item) append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, it.Disp)
	dst = xdr.AppendUint32(dst, it.Length)
	dst = xdr.AppendUint32(dst, uint32(it.Place))
	switch it.Place {
	case ExplicitRDMA:
		dst = rpcrdma1.AppendSegments(dst, it.Segments)
	case TargetBuffer:
		dst = appendWords(xdr.AppendUint32(dst, it.Offset), it.Targets)
	}
	return dst
}

func (it *Item) decode(d *xdr.Decoder) {
	*it = Item{Disp: d.Uint32(), Length: d.Uint32(), Place: Placement(d.Uint32()), Segments: it.Segments[:0], Targets: it.Targets[:0]}
	switch it.Place {
	case ExplicitRDMA:
		it.Segments = rpcrdma1.DecodeSegments(d, it.Segments)
	case TargetBuffer:
		it.Offset = d.Uint32()
		it.Targets = decodeWords(d, it.Targets, MaxTargets)
	case TooShort, NoItem:
	default: // Choice and BySize are not outcomes
		d.Fail(errLocation)
	}
}

func itemsSize(items []Item) int {
	n := wordSize
	for i := range items {
		n += items[i].size()
	}
	return n
}

func appendItems(dst []byte, items []Item) []byte {
	dst = xdr.AppendUint32(dst, uint32(len(items)))
	for i := range items {
		dst = items[i].append(dst)
	}
	return dst
}

// decodeItems replaces items by an array of them.
func decodeItems(d *xdr.Decoder, items []Item) []Item {
	items = items[:0]
	for range d.Count(MaxItems, minItem) {
		xdr.Extend(&items).decode(d)
	}
	return items
}
