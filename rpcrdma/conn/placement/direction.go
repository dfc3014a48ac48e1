package placement

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// ErrAnswer means that a response does with a result what its direction does
// not allow.
var ErrAnswer = errors.New("placement: a result is not where it was directed to be")

// Choose says what a responder does with a result of length bytes that has a
// direction: ExplicitRDMA, TargetBuffer, or TooShort, which leaves it in the
// payload stream. fits says whether it fits the target segments at hand.
//
// Left to choose, it takes the target segments: an RDMA Write is saved.
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

// CheckAnswer says whether a response may answer direction d with it (rtrext
// §7.4); ErrAnswer if not. That the bytes of one with TargetBuffer are there
// is for a Resolver to say.
func CheckAnswer(d *rpcrdma2.ResultItem, it *rpcrdma2.Item) error {
	var allowed bool
	switch it.Place {
	case rpcrdma2.TooShort, rpcrdma2.NoItem:
		return nil
	case rpcrdma2.ExplicitRDMA:
		allowed = d.Place == rpcrdma2.ExplicitRDMA || d.Place == rpcrdma2.Choice ||
			(d.Place == rpcrdma2.BySize && it.Length >= d.Threshold)
		n, err := chunk.Returned(d.Segments, it.Segments)
		length := int(it.Length)
		allowed = allowed && err == nil && (n == length || n == length+chunk.Pad(length)) // RFC 5666 §3.7
	case rpcrdma2.TargetBuffer:
		allowed = d.Place == rpcrdma2.TargetBuffer || d.Place == rpcrdma2.Choice ||
			(d.Place == rpcrdma2.BySize && it.Length < d.Threshold)
	}
	if !allowed || it.Length == 0 || it.Length < d.MinLength {
		return ErrAnswer
	}
	return nil
}
