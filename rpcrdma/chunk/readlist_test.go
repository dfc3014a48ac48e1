package chunk

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

func seg(pos, handle, length uint32, addr uint64) rpcrdma1.ReadSegment {
	return rpcrdma1.ReadSegment{Position: pos, Segment: rpcrdma1.Segment{Handle: handle, Length: length, Offset: addr}}
}

var wide = Limits{MaxChunks: 8, MaxSegments: 8, MaxLength: 1 << 20}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		reads []rpcrdma1.ReadSegment
		want  []ReadChunk
		err   error
	}{
		"none":                   {nil, nil, nil},
		"one":                    {[]rpcrdma1.ReadSegment{seg(40, 1, 100, 0)}, []ReadChunk{{Position: 40, Length: 100, count: 1}}, nil},
		"one of several":         {[]rpcrdma1.ReadSegment{seg(40, 1, 100, 0), seg(40, 2, 50, 0)}, []ReadChunk{{Position: 40, Length: 150, count: 2}}, nil},
		"two, in another order":  {[]rpcrdma1.ReadSegment{seg(80, 1, 4, 0), seg(40, 2, 8, 0)}, []ReadChunk{{Position: 40, Length: 8, count: 1}, {Position: 80, Length: 4, first: 1, count: 1}}, nil},
		"mixed":                  {[]rpcrdma1.ReadSegment{seg(80, 1, 1, 0), seg(0, 2, 8, 0), seg(80, 3, 2, 0)}, []ReadChunk{{Length: 8, count: 1}, {Position: 80, Length: 3, first: 1, count: 2}}, nil},
		"empty":                  {[]rpcrdma1.ReadSegment{seg(40, 1, 0, 0)}, []ReadChunk{{Position: 40, count: 1}}, nil},
		"unaligned":              {[]rpcrdma1.ReadSegment{seg(42, 1, 4, 0)}, nil, ErrPosition},
		"last byte but one":      {[]rpcrdma1.ReadSegment{seg(40, 1, 4, math.MaxUint64-4)}, []ReadChunk{{Position: 40, Length: 4, count: 1}}, nil},
		"last byte":              {[]rpcrdma1.ReadSegment{seg(40, 1, 4, math.MaxUint64-3)}, []ReadChunk{{Position: 40, Length: 4, count: 1}}, nil},
		"address wraps":          {[]rpcrdma1.ReadSegment{seg(40, 1, 4, math.MaxUint64-2)}, nil, ErrAddressWrap},
		"longest wraps":          {[]rpcrdma1.ReadSegment{seg(40, 1, math.MaxUint32, math.MaxUint64)}, nil, ErrAddressWrap},
		"nothing at the end":     {[]rpcrdma1.ReadSegment{seg(40, 1, 0, math.MaxUint64)}, []ReadChunk{{Position: 40, count: 1}}, nil},
		"too long":               {[]rpcrdma1.ReadSegment{seg(40, 1, 1<<20+1, 0)}, nil, ErrTooLong},
		"too long together":      {[]rpcrdma1.ReadSegment{seg(40, 1, 1<<20, 0), seg(44, 1, 1, 0)}, nil, ErrTooLong},
		"sum beyond 32 bits":     {[]rpcrdma1.ReadSegment{seg(40, 1, math.MaxUint32, 0), seg(40, 1, 2, 0)}, nil, ErrTooLong},
		"too many":               {slices.Repeat([]rpcrdma1.ReadSegment{seg(40, 1, 1, 0), seg(44, 1, 1, 0), seg(48, 1, 1, 0)}, 1), nil, ErrChunkCount},
		"too many segments":      {slices.Repeat([]rpcrdma1.ReadSegment{seg(40, 1, 1, 0)}, 9), nil, ErrSegmentCount},
		"all segments allowed":   {slices.Repeat([]rpcrdma1.ReadSegment{seg(40, 1, 1, 0)}, 8), []ReadChunk{{Position: 40, Length: 8, count: 8}}, nil},
		"as many as are allowed": {slices.Repeat([]rpcrdma1.ReadSegment{seg(40, 1, 1, 0), seg(44, 1, 1, 0)}, 1), []ReadChunk{{Position: 40, Length: 1, count: 1}, {Position: 44, Length: 1, first: 1, count: 1}}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var l ReadList
			lim := wide
			lim.MaxChunks = 2
			err := l.Parse(tc.reads, lim)
			if !errors.Is(err, tc.err) {
				t.Fatalf("%v, want %v", err, tc.err)
			}
			if !slices.Equal(l.Chunks, tc.want) {
				t.Errorf("%+v, want %+v", l.Chunks, tc.want)
			}
		})
	}
}

func TestPlace(t *testing.T) {
	tests := map[string]struct {
		reads  []rpcrdma1.ReadSegment
		stream int
		want   []int
		err    error
	}{
		"end of the stream":        {[]rpcrdma1.ReadSegment{seg(40, 1, 5, 0)}, 40, []int{40}, nil},
		"middle":                   {[]rpcrdma1.ReadSegment{seg(40, 1, 5, 0)}, 60, []int{40}, nil},
		"beyond":                   {[]rpcrdma1.ReadSegment{seg(44, 1, 5, 0)}, 40, nil, ErrPosition},
		"far beyond":               {[]rpcrdma1.ReadSegment{seg(math.MaxUint32-3, 1, 5, 0)}, 40, nil, ErrPosition},
		"two":                      {[]rpcrdma1.ReadSegment{seg(40, 1, 5, 0), seg(52, 1, 8, 0)}, 60, []int{40, 44}, nil},
		"two adjacent":             {[]rpcrdma1.ReadSegment{seg(40, 1, 5, 0), seg(48, 1, 8, 0)}, 60, []int{40, 40}, nil},
		"second within the first":  {[]rpcrdma1.ReadSegment{seg(40, 1, 5, 0), seg(44, 1, 8, 0)}, 60, nil, ErrOverlap},
		"long, with an item":       {[]rpcrdma1.ReadSegment{seg(0, 1, 100, 0), seg(40, 1, 8, 0)}, 100, []int{40}, nil},
		"long alone":               {[]rpcrdma1.ReadSegment{seg(0, 1, 100, 0)}, 100, nil, nil},
		"empty item, then another": {[]rpcrdma1.ReadSegment{seg(40, 1, 0, 0), seg(44, 1, 8, 0)}, 60, []int{40, 44}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var l ReadList
			if err := l.Parse(tc.reads, wide); err != nil {
				t.Fatal(err)
			}
			if err := l.Place(tc.stream); !errors.Is(err, tc.err) {
				t.Fatalf("%v, want %v", err, tc.err)
			}
			for i, at := range tc.want {
				if l.Items()[i].At != at {
					t.Errorf("item %d at %d, want %d", i, l.Items()[i].At, at)
				}
			}
		})
	}
}

func TestAppendReads(t *testing.T) {
	var l ReadList
	err := l.Parse([]rpcrdma1.ReadSegment{seg(40, 1, 10, 1000), seg(40, 2, 0, 2000), seg(40, 3, 4, 3000), seg(80, 4, 3, 4000)}, wide)
	if err != nil {
		t.Fatal(err)
	}
	got := l.AppendReads(nil, 4)
	want := []Read{
		{0, 0, 4, 1, 1000}, {0, 4, 4, 1, 1004}, {0, 8, 2, 1, 1008}, {0, 10, 4, 3, 3000}, {1, 0, 3, 4, 4000},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
