package chunk

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// message is a random XDR message with opaque items in it.
type message struct {
	whole  []byte // as it would be without chunks
	stream []byte // without the items
	items  []Item
	data   [][]byte
}

func genMessage(t *rapid.T) message {
	var m message
	word := rapid.SliceOfN(rapid.Byte(), 4, 4)
	add := func(b []byte) { m.whole, m.stream = append(m.whole, b...), append(m.stream, b...) }
	for range rapid.IntRange(0, 4).Draw(t, "items") {
		for range rapid.IntRange(0, 3).Draw(t, "words") {
			add(word.Draw(t, "word"))
		}
		d := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data")
		m.items = append(m.items, Item{Pos: len(m.stream), Len: len(d)})
		m.data = append(m.data, d)
		m.whole = append(append(m.whole, d...), make([]byte, xdr.Pad(len(d)))...)
	}
	for range rapid.IntRange(0, 3).Draw(t, "words") {
		add(word.Draw(t, "word"))
	}
	return m
}

// peer is memory that read segments point into; a segment's handle is its
// index.
type peer struct{ memory [][]byte }

// split offers b as segments at a position.
func (p *peer) split(t *rapid.T, pos int, b []byte) (segs []rpcrdma1.ReadSegment) {
	for first := true; first || len(b) > 0; first = false {
		n := rapid.IntRange(0, len(b)).Draw(t, "segment")
		if rapid.Bool().Draw(t, "rest") {
			n = len(b)
		}
		segs = append(segs, rpcrdma1.ReadSegment{Position: uint32(pos), Segment: rpcrdma1.Segment{
			Handle: uint32(len(p.memory)), Length: uint32(n), Offset: 1 << 40,
		}})
		p.memory = append(p.memory, b[:n])
		b = b[n:]
	}
	return segs
}

// TestReadRoundTrip: any split of any message into read chunks comes back
// together.
func TestReadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMessage(t)
		var p peer
		var reads []rpcrdma1.ReadSegment
		long := rapid.Bool().Draw(t, "long")
		for i := range m.items {
			m.items[i].Chunked = true
			if pos := Position(m.items, i); pos != 0 {
				reads = append(p.split(t, pos, m.data[i]), reads...) // chunks in any order
			} else {
				m.items[i].Chunked = false
			}
		}
		sent := flatten(m.stream, m.items, m.data)
		if long {
			reads = append(reads, p.split(t, 0, sent)...)
		}

		var l ReadList
		if err := l.Parse(reads, Limits{MaxChunks: 8, MaxSegments: 1000, MaxLength: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		memory := make([][]byte, len(l.Chunks))
		for i := range memory {
			memory[i] = make([]byte, l.Chunks[i].Length)
		}
		for _, r := range l.AppendReads(nil, uint32(rapid.IntRange(1, 30).Draw(t, "max"))) {
			from := p.memory[r.RKey][r.Addr-1<<40:]
			copy(memory[r.Chunk][r.Off:r.Off+r.Length], from[:r.Length])
		}
		stream := sent
		if long && len(sent) > 0 {
			stream, memory = memory[0], memory[1:]
		} else if l.Long() {
			memory = memory[1:]
		}
		if err := l.Place(len(stream)); err != nil {
			t.Fatal(err)
		}
		if got := insert(stream, l.Items(), memory); !bytes.Equal(got, m.whole) {
			t.Fatalf("got %x, want %x", got, m.whole)
		}
	})
}

// flatten puts the items that are not in chunks into the stream.
func flatten(stream []byte, items []Item, data [][]byte) (out []byte) {
	for _, p := range AppendPieces(nil, len(stream), items) {
		switch p.From {
		case Stream:
			out = append(out, stream[p.Off:p.Off+p.Len]...)
		case Zeros:
			out = append(out, make([]byte, p.Len)...)
		default:
			out = append(out, data[p.From][p.Off:p.Off+p.Len]...)
		}
	}
	return out
}

// insert puts fetched items where they belong.
func insert(stream []byte, items []ReadChunk, memory [][]byte) (out []byte) {
	off := 0
	for i := range items {
		out = append(out, stream[off:items[i].At]...)
		off = items[i].At
		out = append(append(out, memory[i]...), make([]byte, xdr.Pad(len(memory[i])))...)
	}
	return append(out, stream[off:]...)
}

// TestWriteRoundTrip: pieces laid into any segments are the message, in order
// and without gaps, and the lengths tell so.
func TestWriteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMessage(t)
		for i := range m.items {
			m.items[i].Chunked = rapid.Bool().Draw(t, "chunked")
		}
		want := flatten(m.stream, m.items, m.data)
		var c rpcrdma1.WriteChunk
		var memory [][]byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 60), 0, 8).Draw(t, "segments") {
			c = append(c, rpcrdma1.Segment{Handle: uint32(len(memory)), Length: uint32(n), Offset: 1 << 50})
			memory = append(memory, make([]byte, n))
		}
		offered := slices.Clone(c)
		if uint64(len(want)) > Capacity(offered) {
			return
		}
		for _, w := range Fill(nil, c, AppendPieces(nil, len(m.stream), m.items), uint32(rapid.IntRange(1, 30).Draw(t, "max"))) {
			src := m.stream
			switch {
			case w.From == Zeros:
				src = make([]byte, w.Length)
			case w.From >= 0:
				src = m.data[w.From]
			}
			copy(memory[w.RKey][w.Addr-1<<50:], src[w.Off:w.Off+w.Length])
		}
		if n, err := Returned(offered, c); n != len(want) || err != nil {
			t.Fatalf("returned %d, %v; want %d", n, err, len(want))
		}
		var got []byte
		for i, s := range c {
			got = append(got, memory[i][:s.Length]...)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("got %x, want %x", got, want)
		}
	})
}

// TestParts: parts of an item laid into any segments are the item, and no part changes the
// chunk.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c rpcrdma1.WriteChunk
		var memory [][]byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 60), 0, 8).Draw(t, "segments") {
			c = append(c, rpcrdma1.Segment{Handle: uint32(len(memory)), Length: uint32(n), Offset: 1 << 50})
			memory = append(memory, make([]byte, n))
		}
		offered, longest := slices.Clone(c), uint32(rapid.IntRange(1, 70).Draw(t, "max"))
		item := rapid.SliceOfN(rapid.Byte(), 0, int(Capacity(c))).Draw(t, "item")
		for at := 0; at < len(item); {
			end := rapid.IntRange(at+1, len(item)).Draw(t, "end")
			for _, w := range Part(nil, c, at, Piece{From: 3, Off: at, Len: end - at}, longest) {
				if w.From != 3 || w.Length < 1 || w.Length > int(longest) || w.Off < at || w.Off+w.Length > end {
					t.Fatalf("%+v in bytes %d to %d", w, at, end)
				}
				copy(memory[w.RKey][w.Addr-1<<50:][:w.Length], item[w.Off:])
			}
			at = end
		}
		if !slices.Equal(c, offered) {
			t.Fatal("the chunk has changed")
		}
		Used(c, len(item))
		if n, err := Returned(offered, c); n != len(item) || err != nil {
			t.Fatalf("returned %d, %v; want %d", n, err, len(item))
		}
		var got []byte
		for i, s := range c {
			got = append(got, memory[i][:s.Length]...)
		}
		if !bytes.Equal(got, item) {
			t.Fatalf("got %x, want %x", got, item)
		}
	})
}

// FuzzReadList: whatever a peer asks for, reads stay within the memory that
// the chunks say, and items within the stream.
func FuzzReadList(f *testing.F) {
	add := func(stream uint16, segs ...rpcrdma1.ReadSegment) {
		var b []byte
		for _, s := range segs {
			b = binary.BigEndian.AppendUint32(b, s.Position)
			b = binary.BigEndian.AppendUint32(b, s.Handle)
			b = binary.BigEndian.AppendUint32(b, s.Length)
			b = binary.BigEndian.AppendUint64(b, s.Offset)
		}
		f.Add(stream, b)
	}
	add(40, seg(40, 1, 4095, 1<<32))
	add(100, seg(0, 1, 100, 0), seg(40, 2, 8, 0))
	add(60, seg(40, 1, 5, 0), seg(48, 1, 8, 0), seg(40, 1, 1<<31, 1<<63))
	f.Fuzz(func(t *testing.T, stream uint16, b []byte) {
		var reads []rpcrdma1.ReadSegment
		for ; len(b) >= 20; b = b[20:] {
			reads = append(reads, seg(binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint64(b[12:])))
		}
		var l ReadList
		if l.Parse(reads, Limits{MaxChunks: 4, MaxSegments: 1000, MaxLength: 1 << 16}) != nil {
			return
		}
		total := 0
		for _, r := range l.AppendReads(nil, 1000) {
			c := l.Chunks[r.Chunk]
			if r.Length < 1 || r.Length > 1000 || r.Off < 0 || r.Off+r.Length > c.Length {
				t.Fatalf("read %+v of chunk %+v", r, c)
			}
			total += r.Length
		}
		if total > 1<<16 {
			t.Fatalf("%d bytes", total)
		}
		if l.Place(int(stream)) != nil {
			return
		}
		last := 0
		for _, it := range l.Items() {
			if it.At < last || it.At > int(stream) {
				t.Fatalf("item at %d of %d, after %d", it.At, stream, last)
			}
			last = it.At
		}
	})
}

func TestNoAllocations(t *testing.T) {
	reads := []rpcrdma1.ReadSegment{seg(40, 1, 4096, 0), seg(40, 2, 100, 0)}
	var l ReadList
	var fetch []Read
	var pieces []Piece
	var writes []Write
	items := []Item{{Pos: 8, Len: 4095}}
	c := segs(4096, 4)
	one := func() {
		if l.Parse(reads, wide) != nil || l.Place(100) != nil {
			t.Fatal("refused")
		}
		fetch = l.AppendReads(fetch[:0], 1<<20)
		pieces = AppendPieces(pieces[:0], 20, items)
		c[0].Length, c[1].Length = 4096, 200
		writes = Fill(writes[:0], c, pieces, 1<<20)
	}
	one()
	if n := testing.AllocsPerRun(100, one); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
