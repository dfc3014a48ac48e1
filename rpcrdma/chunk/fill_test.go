package chunk

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

func segs(lengths ...uint32) rpcrdma1.WriteChunk {
	var c rpcrdma1.WriteChunk
	for i, n := range lengths {
		c = append(c, rpcrdma1.Segment{Handle: uint32(i + 1), Length: n, Offset: uint64(i+1) * 1000})
	}
	return c
}

func lengths(c rpcrdma1.WriteChunk) (n []uint32) {
	for _, s := range c {
		n = append(n, s.Length)
	}
	return n
}

func TestFill(t *testing.T) {
	item := func(n int) []Piece { return []Piece{{From: 0, Len: n}} }
	tests := map[string]struct {
		chunk   rpcrdma1.WriteChunk
		pieces  []Piece
		max     uint32
		writes  []Write
		lengths []uint32
	}{
		"nothing": {segs(10, 5), nil, 100, nil, []uint32{0, 0}},
		"part of the first": {segs(10, 5), item(3), 100,
			[]Write{{0, 0, 3, 1, 1000}}, []uint32{3, 0}},
		"exactly the first": {segs(10, 5), item(10), 100,
			[]Write{{0, 0, 10, 1, 1000}}, []uint32{10, 0}},
		"into the second": {segs(10, 5), item(11), 100,
			[]Write{{0, 0, 10, 1, 1000}, {0, 10, 1, 2, 2000}}, []uint32{10, 1}},
		"all": {segs(10, 5), item(15), 100,
			[]Write{{0, 0, 10, 1, 1000}, {0, 10, 5, 2, 2000}}, []uint32{10, 5}},
		"odd length before a kernel client's padding segment": {segs(4095, 4), item(4095), 1 << 20,
			[]Write{{0, 0, 4095, 1, 1000}}, []uint32{4095, 0}},
		"empty segments": {segs(0, 4, 0, 4, 0), item(6), 100,
			[]Write{{0, 0, 4, 2, 2000}, {0, 4, 2, 4, 4000}}, []uint32{0, 4, 0, 2, 0}},
		"no segments":        {nil, nil, 100, nil, nil},
		"split at the limit": {segs(10), item(10), 4, []Write{{0, 0, 4, 1, 1000}, {0, 4, 4, 1, 1004}, {0, 8, 2, 1, 1008}}, []uint32{10}},
		"several pieces": {segs(8, 8), []Piece{{Stream, 0, 6}, {0, 0, 5}, {Zeros, 0, 3}, {Stream, 6, 2}}, 100,
			[]Write{{Stream, 0, 6, 1, 1000}, {0, 0, 2, 1, 1006}, {0, 2, 3, 2, 2000}, {Zeros, 0, 3, 2, 2003}, {Stream, 6, 2, 2, 2006}}, []uint32{8, 8}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Fill(nil, tc.chunk, tc.pieces, tc.max)
			if !slices.Equal(got, tc.writes) {
				t.Errorf("writes %v, want %v", got, tc.writes)
			}
			if !slices.Equal(lengths(tc.chunk), tc.lengths) {
				t.Errorf("lengths %v, want %v", lengths(tc.chunk), tc.lengths)
			}
		})
	}
}

func TestCheckWrite(t *testing.T) {
	if err := CheckWrite(rpcrdma1.WriteChunk{{Length: 2, Offset: math.MaxUint64}}); !errors.Is(err, ErrAddressWrap) {
		t.Error(err)
	}
	if err := CheckWrite(rpcrdma1.WriteChunk{{Length: 2, Offset: math.MaxUint64 - 1}}); err != nil {
		t.Error(err)
	}
	if err := CheckWrite(segs(1, 2, 3)); err != nil {
		t.Error(err)
	}
}

func TestReturned(t *testing.T) {
	offered := segs(10, 10, 10)
	alter := func(f func(c rpcrdma1.WriteChunk)) rpcrdma1.WriteChunk {
		c := slices.Clone(offered)
		f(c)
		return c
	}
	tests := map[string]struct {
		got rpcrdma1.WriteChunk
		n   int
		err error
	}{
		"unused":          {segs(0, 0, 0), 0, nil},
		"part":            {segs(10, 3, 0), 13, nil},
		"all":             {segs(10, 10, 10), 30, nil},
		"gap":             {segs(10, 3, 1), 0, ErrReturned},
		"gap at first":    {segs(0, 3, 0), 0, ErrReturned},
		"longer":          {segs(11, 0, 0), 0, ErrReturned},
		"fewer segments":  {segs(10, 3), 0, ErrReturned},
		"more segments":   {segs(10, 0, 0, 0), 0, ErrReturned},
		"another handle":  {alter(func(c rpcrdma1.WriteChunk) { c[1].Handle++ }), 0, ErrReturned},
		"another address": {alter(func(c rpcrdma1.WriteChunk) { c[2].Offset++ }), 0, ErrReturned},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n, err := Returned(offered, tc.got)
			if n != tc.n || !errors.Is(err, tc.err) {
				t.Errorf("%d, %v; want %d, %v", n, err, tc.n, tc.err)
			}
		})
	}
}

func TestPieces(t *testing.T) {
	items := []Item{{Pos: 8, Len: 5}, {Pos: 8, Len: 100, Chunked: true}, {Pos: 12, Len: 0}, {Pos: 16, Len: 4}}
	got := AppendPieces(nil, 20, items)
	want := []Piece{{Stream, 0, 8}, {0, 0, 5}, {Zeros, 0, 3}, {Stream, 8, 8}, {3, 0, 4}, {Stream, 16, 4}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := PiecesLength(20, items); n != 32 {
		t.Errorf("%d bytes", n)
	}
	for k, want := range []int{8, 16, 120, 124} {
		if pos := Position(items, k); pos != want {
			t.Errorf("item %d at %d, want %d", k, pos, want)
		}
	}
}
