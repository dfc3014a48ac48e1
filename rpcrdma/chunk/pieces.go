package chunk

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Source is where a piece's bytes come from: the index of an item (0 or more), or one of
// the constants below.
type Source int32

// Sources other than items.
const (
	Stream Source = -1 // the XDR stream
	Zeros  Source = -2 // roundup padding
)

// Piece is a run of bytes of a message to be sent.
type Piece struct {
	From Source
	Off  int // in the source; 0 for Zeros
	Len  int
}

// Item is an opaque item that is not in the stream.
type Item struct {
	Pos int // in the stream
	Len int // without roundup
	// Chunked means that the item goes into its own chunk and is not in the pieces.
	Chunked bool

	// For a result: Asked is the operation of the call that it belongs to, in the XDR
	// stream of the arguments. It is empty if the arguments are one operation. Absent means
	// that the reply does not have the result.
	Asked  xdr.Span
	Absent bool
	// Into is the index of the write chunk for a result, or -1.
	Into int
	// Written is how many bytes of a result are in its write chunk already.
	Written int
}

// AppendPieces appends the pieces of a message: the stream of streamLen bytes, with the
// items that are not Chunked at their positions, rounded up. Items are in order of Pos.
// None is beyond streamLen.
func AppendPieces(dst []Piece, streamLen int, items []Item) []Piece {
	off := 0
	for i := range items {
		it := &items[i]
		if it.Chunked || it.Len == 0 {
			continue
		}
		if it.Pos > off {
			dst = append(dst, Piece{From: Stream, Off: off, Len: it.Pos - off})
			off = it.Pos
		}
		dst = append(dst, Piece{From: Source(i), Len: it.Len})
		if p := xdr.Pad(it.Len); p > 0 {
			dst = append(dst, Piece{From: Zeros, Len: p})
		}
	}
	if streamLen > off {
		dst = append(dst, Piece{From: Stream, Off: off, Len: streamLen - off})
	}
	return dst
}

// Length returns the length of pieces, in bytes.
func Length(pieces []Piece) (n int) {
	for i := range pieces {
		n += pieces[i].Len
	}
	return n
}

// PiecesLength returns the length of the pieces that AppendPieces appends, in bytes.
func PiecesLength(streamLen int, items []Item) int {
	n := streamLen
	for i := range items {
		if !items[i].Chunked {
			n += xdr.Padded(items[i].Len)
		}
	}
	return n
}

// Position returns the position of items[k] in the XDR stream of the whole message, with
// all items in it. A read list uses this position.
func Position(items []Item, k int) int {
	pos := items[k].Pos
	for i := range items[:k] {
		pos += xdr.Padded(items[i].Len)
	}
	return pos
}
