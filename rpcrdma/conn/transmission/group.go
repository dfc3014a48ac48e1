package transmission

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Transmission is one Send of a group after the first.
type Transmission struct {
	Header rpcrdma2.Header
	// Inline is its part of the payload stream and, at their places, items: Length bytes in
	// total.
	Inline []chunk.Piece
	Length int

	payload int // bytes of Inline that belong to the payload stream
}

// ContinueSize is the header size of each Send of a group after the first, in bytes.
const ContinueSize = rpcrdma1.PrefixSize + (2+1+3)*4

// Group is one of our messages to be sent in transmissions. Its storage is reused.
type Group struct {
	// More are the transmissions after the first.
	More   []Transmission
	pieces []chunk.Piece // of all transmissions; source holds them before they were cut
	source []chunk.Piece
	info   []byte
	cont   rpcrdma2.XmtCont
}

// Count returns the number of transmissions for payload bytes. first is the size of the
// first header, limit the largest Send. It returns 0 if the header does not fit.
func Count(payload, first, limit int) int {
	begin, each := Room(first, limit)
	switch {
	case begin < 0:
		return 0
	case payload <= limit-first:
		return 1
	}
	return 1 + (payload-begin+each-1)/each
}

// Room returns how many bytes of the payload stream fit into the first transmission and
// into each further one. All parts but the last consist of whole words.
func Room(first, limit int) (begin, each int) {
	return (limit - first) &^ 3, (limit - ContinueSize) &^ 3
}

// Split divides pieces between the transmissions of a group. It returns what goes into the
// first, and puts the others into g.More.
func (g *Group) Split(pieces []chunk.Piece, payload, first, limit int) (begin int, inline []chunk.Piece) {
	g.More, g.pieces = g.More[:0], g.pieces[:0]
	begin, each := Room(first, limit)
	if payload <= limit-first {
		return payload, pieces
	}
	g.source = append(g.source[:0], pieces...)
	inline, pieces = g.cut(g.source, begin)
	for left := payload - begin; left > 0; left -= each {
		n := min(left, each)
		t := xdr.Extend(&g.More)
		t.Length, t.payload = n, n
		t.Inline, pieces = g.cut(pieces, n)
	}
	return begin, inline
}

// cut takes the first n bytes off pieces. It changes pieces.
func (g *Group) cut(pieces []chunk.Piece, n int) (front, rest []chunk.Piece) {
	at := len(g.pieces)
	for n > 0 {
		p := pieces[0]
		if p.Len > n {
			p.Len = n
			pieces[0].Len -= n
			if p.From != chunk.Zeros {
				pieces[0].Off += n
			}
		} else {
			pieces = pieces[1:]
		}
		g.pieces = append(g.pieces, p)
		n -= p.Len
	}
	return g.pieces[at:len(g.pieces):len(g.pieces)], pieces
}

// Head makes h the header of the first transmission, with this body.
func (g *Group) Head(h *rpcrdma2.Header, body rpcrdma2.Body) {
	g.info = body.Append(g.info[:0])
	h.Proc, h.Option, h.Info = rpcrdma2.Optional, body.Type(), g.info
}

// Number makes the headers of the other transmissions. h is the header of the first.
func (g *Group) Number(h *rpcrdma2.Header) {
	for i := range g.More {
		t := &g.More[i]
		g.cont = rpcrdma2.XmtCont{Number: uint32(i + 1), Initial: h.Option, PayloadLength: uint32(t.payload)}
		info := t.Header.Info[:0]
		t.Header = rpcrdma2.Header{}
		t.Header.XID, t.Header.Version, t.Header.Credits = h.XID, h.Version, h.Credits
		t.Header.Proc, t.Header.Direction = rpcrdma2.Optional, h.Direction
		t.Header.Option, t.Header.Info = rpcrdma2.OptXmtCont, g.cont.Append(info)
	}
}
