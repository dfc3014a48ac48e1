package placement

import (
	"math"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Stream is the virtual XDR stream of a message as far as its items are known:
// the payload stream with what is apart put back, each item with its roundup
// (rtrext §6.2). It says whether items are where they can be.
type Stream struct {
	least uint64 // where the next item may begin
	end   uint64 // of the stream
}

// NewStream begins with the payload stream alone, whose first header bytes hold
// no item.
func NewStream(payload, header int) Stream {
	return Stream{least: uint64(header), end: uint64(payload)}
}

// Item puts the next item back. An *Error is BadOffset, with the displacements
// that were valid: the item begins within the one before it or beyond the
// stream, or not on a word; or it is TooShort and does not end within the
// stream.
func (v *Stream) Item(it *rpcrdma2.Item) error {
	disp, size := uint64(it.Disp), (uint64(it.Length)+unit-1)&^(unit-1)
	last := v.end
	if it.Place == rpcrdma2.TooShort { // it is in the payload stream
		last -= min(size, last)
	} else {
		v.end += size
	}
	if disp < v.least || disp > last || disp%unit != 0 {
		return &Error{Code: rpcrdma2.BadOffset, Actual: it.Disp, Min: word(v.least), Max: word(last)}
	}
	v.least = disp + max(size, unit)
	return nil
}

// word is n as far as a word can say it.
func word(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }
