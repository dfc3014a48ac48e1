package transmission

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
)

// MaxZeros is the most bytes of one piece of Zeros.
const MaxZeros = 2 * placement.PageSize

// Layout is how a message of ours with items in target segments lies in its
// transmissions. Its storage is used again.
type Layout struct {
	placement.Layout
	// Sources are those of the items laid out.
	Sources []chunk.Source
	lengths []int
}

// Forget begins a layout.
func (l *Layout) Forget() { l.lengths, l.Sources = l.lengths[:0], l.Sources[:0] }

// Add adds an item, which is not empty.
func (l *Layout) Add(from chunk.Source, length int) {
	l.lengths, l.Sources = append(l.lengths, length), append(l.Sources, from)
}

// Plan lays m out for receives of structure s. A structure for which it would be
// mostly padding is of no use: its peer could have us send much for little.
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

// Largest is the length of the longest transmission.
func (l *Layout) Largest() (n int) {
	for i := range l.Transmissions {
		n = max(n, l.Transmissions[i].Length)
	}
	return n
}

// Place lays the pieces of the payload stream, and the items that l places, into
// the transmissions of a group. It gives what goes with the first, of which begin
// bytes are of the payload stream, and the others in g.More.
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
		m := Extend(&g.More)
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

// part adds bytes of an item, to the piece before if they follow it.
func (g *Group) part(from chunk.Source, off, n int) {
	if k := len(g.pieces) - 1; k >= 0 {
		if last := &g.pieces[k]; last.From == from && last.Off+last.Len == off {
			last.Len += n
			return
		}
	}
	g.pieces = append(g.pieces, chunk.Piece{From: from, Off: off, Len: n})
}

// Empty says whether no item is to be laid out.
func (l *Layout) Empty() bool { return len(l.lengths) == 0 }
