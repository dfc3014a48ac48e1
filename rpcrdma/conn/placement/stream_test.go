package placement

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestStream: items follow each other in the virtual stream, and nothing of it
// overflows.
func TestStream(t *testing.T) {
	const apart, short = rpcrdma2.TargetBuffer, rpcrdma2.TooShort
	for name, tc := range map[string]struct {
		items []rpcrdma2.Item // in a payload stream of 100 bytes, 40 of them a header
		min   uint32          // of the last item's error
		max   uint32
	}{
		"one":                     {items: []rpcrdma2.Item{{Disp: 44, Length: 5, Place: apart}}},
		"at the end":              {items: []rpcrdma2.Item{{Disp: 100, Length: 5, Place: apart}}},
		"two":                     {items: []rpcrdma2.Item{{Disp: 44, Length: 5, Place: apart}, {Disp: 56, Length: 1, Place: apart}}},
		"side by side":            {items: []rpcrdma2.Item{{Disp: 44, Length: 5, Place: apart}, {Disp: 52, Length: 1, Place: apart}}},
		"into the roundup":        {[]rpcrdma2.Item{{Disp: 44, Length: 5, Place: apart}, {Disp: 48, Length: 1, Place: apart}}, 52, 108},
		"the same":                {[]rpcrdma2.Item{{Disp: 44, Length: 5, Place: apart}, {Disp: 44, Length: 5, Place: apart}}, 52, 108},
		"backwards":               {[]rpcrdma2.Item{{Disp: 60, Length: 4, Place: apart}, {Disp: 44, Length: 4, Place: apart}}, 64, 104},
		"in the header":           {[]rpcrdma2.Item{{Disp: 36, Length: 4, Place: apart}}, 40, 100},
		"past the end":            {[]rpcrdma2.Item{{Disp: 104, Length: 4, Place: apart}}, 40, 100},
		"past what is put back":   {[]rpcrdma2.Item{{Disp: 44, Length: 6, Place: apart}, {Disp: 112, Length: 4, Place: apart}}, 52, 108},
		"up to what is put back":  {items: []rpcrdma2.Item{{Disp: 44, Length: 6, Place: apart}, {Disp: 108, Length: 4, Place: apart}}},
		"short ones stay":         {items: []rpcrdma2.Item{{Disp: 44, Length: 6, Place: short}, {Disp: 100, Length: 4, Place: apart}}},
		"short, up to the end":    {items: []rpcrdma2.Item{{Disp: 88, Length: 9, Place: short}}},
		"short, past the end":     {[]rpcrdma2.Item{{Disp: 92, Length: 9, Place: short}}, 40, 88},
		"short, longer than all":  {[]rpcrdma2.Item{{Disp: 44, Length: 104, Place: short}}, 40, 0},
		"of no length, and one":   {items: []rpcrdma2.Item{{Disp: 44, Place: short}, {Disp: 44, Length: 1, Place: apart}}},
		"one, and of no length":   {[]rpcrdma2.Item{{Disp: 44, Length: 1, Place: apart}, {Disp: 44, Place: short}}, 48, 104},
		"lengths beyond all":      {[]rpcrdma2.Item{{Disp: 44, Length: math.MaxUint32, Place: apart}, {Disp: 44, Length: math.MaxUint32, Place: apart}}, math.MaxUint32, math.MaxUint32},
		"short, as long as words": {[]rpcrdma2.Item{{Disp: 44, Length: math.MaxUint32, Place: short}}, 40, 0},
	} {
		v := NewStream(100, 40)
		var err error
		for i := range tc.items {
			if err != nil {
				t.Errorf("%s: item %d: %v", name, i-1, err)
			}
			err = v.Item(&tc.items[i])
		}
		if tc.min == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		want := Error{Code: rpcrdma2.BadOffset, Actual: tc.items[len(tc.items)-1].Disp, Min: tc.min, Max: tc.max}
		if got, is := errors.AsType[*Error](err); !is || *got != want {
			t.Errorf("%s: %v, want %v", name, err, &want)
		}
	}
}

// TestStreamModel: what is taken are the items of some message, word by word.
func TestStreamModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const header = 10 // words, as all below
		taken := make([]bool, rapid.IntRange(header, 60).Draw(t, "payload"))
		v, last := NewStream(4*len(taken), 4*header), 0
		for range rapid.IntRange(1, 5).Draw(t, "items") {
			it := rpcrdma2.Item{
				Disp: uint32(rapid.IntRange(36, 300).Draw(t, "disp")), Length: uint32(rapid.IntRange(0, 50).Draw(t, "length")),
				Place: rapid.SampledFrom([]rpcrdma2.Placement{rpcrdma2.ExplicitRDMA, rpcrdma2.TargetBuffer, rpcrdma2.TooShort}).Draw(t, "place"),
			}
			at, n := int(it.Disp)/4, xdr.Padded(int(it.Length))/4
			fits := it.Disp%4 == 0 && at >= header && at >= last && at <= len(taken) && !slices.Contains(taken[at:], true)
			if fits && it.Place != rpcrdma2.TooShort {
				taken = slices.Insert(taken, at, make([]bool, n)...)
			}
			fits = fits && at+n <= len(taken)
			if err := v.Item(&it); (err == nil) != fits {
				t.Fatalf("%+v in %v: %v", it, taken, err)
			}
			if !fits {
				return
			}
			for k := range n {
				taken[at+k] = true
			}
			last = at
		}
	})
}
