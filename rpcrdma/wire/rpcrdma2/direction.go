package rpcrdma2

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// ResultItem directs the place of one item of the response (xmddp_rsditem).
type ResultItem struct {
	MinLength uint32 // a shorter one stays in the payload stream
	Place     Placement
	// BySize: a result of Threshold bytes or more goes by RDMA.
	Threshold uint32
	Segments  []Segment // ExplicitRDMA, Choice, BySize
}

func (it *ResultItem) size() int {
	n := 2 * wordSize
	switch it.Place {
	case ExplicitRDMA, Choice:
		n += wordSize + segmentSize*len(it.Segments)
	case BySize:
		n += 2*wordSize + segmentSize*len(it.Segments)
	}
	return n
}

func (it *ResultItem) append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, it.MinLength)
	dst = xdr.AppendUint32(dst, uint32(it.Place))
	switch it.Place {
	case ExplicitRDMA, Choice:
		dst = rpcrdma1.AppendSegments(dst, it.Segments)
	case BySize:
		dst = rpcrdma1.AppendSegments(xdr.AppendUint32(dst, it.Threshold), it.Segments)
	}
	return dst
}

func (it *ResultItem) decode(d *xdr.Decoder) {
	*it = ResultItem{MinLength: d.Uint32(), Place: Placement(d.Uint32()), Segments: it.Segments[:0]}
	switch it.Place {
	case ExplicitRDMA, Choice:
		it.Segments = rpcrdma1.DecodeSegments(d, it.Segments)
	case BySize:
		it.Threshold = d.Uint32()
		it.Segments = rpcrdma1.DecodeSegments(d, it.Segments)
	case TargetBuffer:
	default: // TooShort and NoItem are outcomes
		d.Fail(errLocation)
	}
}

// ResultSet directs the items of the response that belong to a range of the request's XDR
// stream (xmddp_rsdset): from Begin up to End.
type ResultSet struct {
	Begin, End uint32
	Items      []ResultItem
}

func (s *ResultSet) size() int {
	n := 3 * wordSize
	for i := range s.Items {
		n += s.Items[i].size()
	}
	return n
}

func (s *ResultSet) append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, s.Begin)
	dst = xdr.AppendUint32(dst, s.End)
	dst = xdr.AppendUint32(dst, uint32(len(s.Items)))
	for i := range s.Items {
		dst = s.Items[i].append(dst)
	}
	return dst
}

func (s *ResultSet) decode(d *xdr.Decoder) {
	s.Begin, s.End = d.Uint32(), d.Uint32()
	s.Items = s.Items[:0]
	for range d.Count(MaxItems, minResultItem) {
		xdr.Extend(&s.Items).decode(d)
	}
}

// Ordered reports whether the ranges are "disjoint and in strictly increasing order" (rtrext
// §7.4). A range ends before its End: no text says this, but otherwise ranges of consecutive
// operations could not be disjoint.
func Ordered(sets []ResultSet) bool {
	for i := range sets {
		if sets[i].End < sets[i].Begin || (i > 0 && (sets[i].Begin < sets[i-1].End || sets[i].Begin == sets[i-1].Begin)) {
			return false
		}
	}
	return true
}
