package transmission

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// MaxZeros is the largest piece of Zeros, in bytes.
const MaxZeros = 2 * placement.PageSize

// Layout is the layout of one of our messages that has items in target segments. Its
// storage is reused.
type Layout struct {
	placement.Layout
	// Sources are the sources of the items in the layout.
	Sources []chunk.Source
	lengths []int
}

// Forget begins a new layout.
func (l *Layout) Forget() { l.lengths, l.Sources = l.lengths[:0], l.Sources[:0] }

// Add adds an item, which is not empty.
func (l *Layout) Add(from chunk.Source, length int) {
	l.lengths, l.Sources = append(l.lengths, length), append(l.Sources, from)
}

// Plan lays out m for receives of structure s. It refuses a layout that is mostly padding:
// otherwise a peer could make us send much data for little.
func (l *Layout) Plan(s *placement.Structure, m *placement.Message) bool {
	m.Items = l.lengths
	if !l.Lay(s, m) {
		return false
	}
	padding := 0
	for i := range l.Transmissions {
		padding += l.Transmissions[i].Padding()
	}
	return padding <= len(l.Transmissions)*MaxZeros+len(l.lengths)*placement.PageSize
}

// Largest returns the length of the longest transmission, in bytes.
func (l *Layout) Largest() (n int) {
	for i := range l.Transmissions {
		n = max(n, l.Transmissions[i].Length)
	}
	return n
}

// Body returns the length of all transmissions without their headers, in bytes.
func (l *Layout) Body() (n int) {
	for i := range l.Transmissions {
		n += l.Transmissions[i].Length - l.Transmissions[i].Header
	}
	return n
}

// Place puts the pieces of the payload stream, and the items of the layout, into the
// transmissions of a group. It returns what goes into the first, with begin bytes of the
// payload stream, and puts the others into g.More.
func (g *Group) Place(l *Layout, pieces []chunk.Piece) (begin int, inline []chunk.Piece) {
	g.More, g.pieces = g.More[:0], g.pieces[:0]
	g.source = append(g.source[:0], pieces...)
	rest := g.source
	for i := range l.Transmissions {
		t := &l.Transmissions[i]
		at := len(g.pieces)
		_, rest = g.cut(rest, t.Payload)
		end := t.Header + t.Payload
		for _, p := range t.Parts {
			g.zeros(p.At - end)
			g.part(l.Sources[p.Item], p.Off, p.Len)
			end = p.At + p.Len
		}
		all := g.pieces[at:len(g.pieces):len(g.pieces)]
		if i == 0 {
			begin, inline = t.Payload, all
			continue
		}
		m := xdr.Extend(&g.More)
		m.Inline, m.Length, m.payload = all, t.Length-t.Header, t.Payload
	}
	return begin, inline
}

// zeros adds n bytes of padding.
func (g *Group) zeros(n int) {
	for ; n > 0; n -= MaxZeros {
		g.pieces = append(g.pieces, chunk.Piece{From: chunk.Zeros, Len: min(n, MaxZeros)})
	}
}

// part adds bytes of an item. It extends the last piece if they follow it.
func (g *Group) part(from chunk.Source, off, n int) {
	if k := len(g.pieces) - 1; k >= 0 {
		if last := &g.pieces[k]; last.From == from && last.Off+last.Len == off {
			last.Len += n
			return
		}
	}
	g.pieces = append(g.pieces, chunk.Piece{From: from, Off: off, Len: n})
}
