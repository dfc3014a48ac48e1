package placement

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// ErrAnswer means that a response places a result where its direction does not allow it.
var ErrAnswer = errors.New("placement: a result is not where it was directed to be")

// Choose returns what a responder does with a result of length bytes that has a direction:
// ExplicitRDMA, TargetBuffer, or TooShort, which leaves it in the payload stream. fits
// means that it fits the available target segments.
//
// If the direction leaves the choice, target segments win, because they save an RDMA Write.
func Choose(d *rpcrdma2.ResultItem, length int, fits bool) rpcrdma2.Placement {
	if length == 0 || uint64(length) < uint64(d.MinLength) {
		return rpcrdma2.TooShort
	}
	written := uint64(length) <= chunk.Capacity(d.Segments)
	switch d.Place {
	case rpcrdma2.TargetBuffer:
		written = false
	case rpcrdma2.ExplicitRDMA:
		fits = false
	case rpcrdma2.BySize:
		small := uint64(length) < uint64(d.Threshold)
		fits, written = fits && small, written && !small
	}
	switch {
	case fits:
		return rpcrdma2.TargetBuffer
	case written:
		return rpcrdma2.ExplicitRDMA
	}
	return rpcrdma2.TooShort
}

// CheckAnswer returns ErrAnswer if a response may not answer direction d with it (rtrext
// §7.4). It does not check that the bytes of a TargetBuffer item are there. A Resolver does
// that.
func CheckAnswer(d *rpcrdma2.ResultItem, it *rpcrdma2.Item) error {
	var allowed bool
	switch it.Place {
	case rpcrdma2.TooShort, rpcrdma2.NoItem:
		return nil
	case rpcrdma2.ExplicitRDMA:
		allowed = d.Place == rpcrdma2.ExplicitRDMA || d.Place == rpcrdma2.Choice ||
			(d.Place == rpcrdma2.BySize && it.Length >= d.Threshold)
		allowed = allowed && written(d.Segments, it)
	case rpcrdma2.TargetBuffer:
		allowed = d.Place == rpcrdma2.TargetBuffer || d.Place == rpcrdma2.Choice ||
			(d.Place == rpcrdma2.BySize && it.Length < d.Threshold)
	}
	if !allowed || it.Length == 0 || it.Length < d.MinLength {
		return ErrAnswer
	}
	return nil
}

// written reports whether a result fills the first of the segments that its direction offers.
// rtrext §6.2 says only that a response shows where the data is. So the responder may leave out
// segments that it did not use, and the length of a segment is the one used, rounded up or not
// (RFC 5666 §3.7), or the one offered.
func written(offered []rpcrdma2.Segment, it *rpcrdma2.Item) bool {
	if len(it.Segments) > len(offered) {
		return false
	}
	left := it.Length
	for k, s := range it.Segments {
		o := &offered[k]
		used := min(left, o.Length)
		rounded := min(xdr.Padded(int(used)), int(o.Length))
		if s.Handle != o.Handle || s.Offset != o.Offset || s.Length != used && int(s.Length) != rounded && s.Length != o.Length {
			return false
		}
		left -= used
	}
	return left == 0
}
