package placement

import (
	"math"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Stream is the virtual XDR stream of a message: the payload stream with all items put back
// that were sent apart, each with its roundup padding (rtrext §6.2). It checks the
// positions of items.
type Stream struct {
	least uint64 // where the next item may begin
	end   uint64 // of the stream
}

// NewStream begins with the payload stream alone. No item may be in its first header bytes.
func NewStream(payload, header int) Stream {
	return Stream{least: uint64(header), end: uint64(payload)}
}

// Item puts the next item back. It returns a BadOffset *Error, with the valid range, if the
// item begins inside the previous one, beyond the stream or not on a word, or if a TooShort
// item does not end inside the stream.
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
	v.least = disp + size // an empty item takes no room
	return nil
}

// word returns n, limited to the largest 32-bit value.
func word(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }
