package chunk

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Source says where a piece's bytes come from: the index of an item (0 and
// up), or one of the other sources.
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

// Item is an opaque item that stands apart from a stream.
type Item struct {
	Pos int // in the stream
	Len int // without roundup
	// Chunked says that the item goes into a chunk of its own and is no
	// part of the pieces.
	Chunked bool

	// Of a result: the operation of the call that it is of, in the XDR stream of
	// the arguments, empty when they are one; and that it is not there.
	Asked  xdr.Span
	Absent bool
	// Into is the write chunk that a result goes with, -1 when it has none.
	Into int
}

// AppendPieces appends the pieces that make up a message: the stream of
// streamLen bytes with the items that are not Chunked put in at their
// positions, rounded up. Items are in order of Pos, none beyond streamLen.
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
		if p := Pad(it.Len); p > 0 {
			dst = append(dst, Piece{From: Zeros, Len: p})
		}
	}
	if streamLen > off {
		dst = append(dst, Piece{From: Stream, Off: off, Len: streamLen - off})
	}
	return dst
}

// PiecesLength is the number of bytes of the pieces that AppendPieces gives.
func PiecesLength(streamLen int, items []Item) int {
	n := streamLen
	for i := range items {
		if !items[i].Chunked {
			n += roundup(items[i].Len)
		}
	}
	return n
}

// Position is where items[k] is in the XDR stream of the whole message, as if
// nothing had been taken out of it: what a read list says.
func Position(items []Item, k int) int {
	pos := items[k].Pos
	for i := range items[:k] {
		pos += roundup(items[i].Len)
	}
	return pos
}
