package placement

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

const threshold = 5000

// direct makes a direction with memory for 8 KiB.
func direct(place rpcrdma2.Placement, least uint32) rpcrdma2.ResultItem {
	d := rpcrdma2.ResultItem{MinLength: least, Place: place}
	if place != rpcrdma2.TargetBuffer {
		d.Segments = []rpcrdma2.Segment{{Handle: 1, Length: 4096, Offset: 8}, {Handle: 2, Length: 4096}}
	}
	if place == rpcrdma2.BySize {
		d.Threshold = threshold
	}
	return d
}

// outcome makes an item as a responder would for d.
func outcome(d *rpcrdma2.ResultItem, place rpcrdma2.Placement, length uint32) rpcrdma2.Item {
	it := rpcrdma2.Item{Length: length, Place: place}
	if place == rpcrdma2.ExplicitRDMA {
		left := length
		for _, s := range d.Segments {
			s.Length = min(s.Length, left)
			left -= s.Length
			it.Segments = append(it.Segments, s)
		}
	}
	return it
}

// TestTable is the table of rtrext §7.4, cell by cell.
func TestTable(t *testing.T) {
	const none = 0
	small, large := uint32(threshold-1), uint32(threshold)
	for _, tc := range []struct {
		place    rpcrdma2.Placement
		length   uint32
		allowed  []rpcrdma2.Placement
		chosen   rpcrdma2.Placement // with room in the target segments
		unfitted rpcrdma2.Placement // without
	}{
		{rpcrdma2.ExplicitRDMA, small, []rpcrdma2.Placement{rpcrdma2.ExplicitRDMA}, rpcrdma2.ExplicitRDMA, rpcrdma2.ExplicitRDMA},
		{rpcrdma2.ExplicitRDMA, 9000, nil, rpcrdma2.TooShort, rpcrdma2.TooShort},
		{rpcrdma2.TargetBuffer, large, []rpcrdma2.Placement{rpcrdma2.TargetBuffer}, rpcrdma2.TargetBuffer, rpcrdma2.TooShort},
		{rpcrdma2.Choice, small, []rpcrdma2.Placement{rpcrdma2.ExplicitRDMA, rpcrdma2.TargetBuffer}, rpcrdma2.TargetBuffer, rpcrdma2.ExplicitRDMA},
		{rpcrdma2.BySize, small, []rpcrdma2.Placement{rpcrdma2.TargetBuffer}, rpcrdma2.TargetBuffer, rpcrdma2.TooShort},
		{rpcrdma2.BySize, large, []rpcrdma2.Placement{rpcrdma2.ExplicitRDMA}, rpcrdma2.ExplicitRDMA, rpcrdma2.ExplicitRDMA},
	} {
		d := direct(tc.place, 100)
		if got := Choose(&d, int(tc.length), true); got != tc.chosen {
			t.Errorf("%v of %d: %v is chosen, want %v", tc.place, tc.length, got, tc.chosen)
		}
		if got := Choose(&d, int(tc.length), false); got != tc.unfitted {
			t.Errorf("%v of %d without room: %v is chosen, want %v", tc.place, tc.length, got, tc.unfitted)
		}
		for _, got := range []rpcrdma2.Placement{none, rpcrdma2.ExplicitRDMA, rpcrdma2.TargetBuffer, rpcrdma2.Choice, rpcrdma2.BySize, rpcrdma2.TooShort, rpcrdma2.NoItem} {
			want := got == rpcrdma2.TooShort || got == rpcrdma2.NoItem
			for _, a := range tc.allowed {
				want = want || a == got
			}
			it := outcome(&d, got, tc.length)
			if err := CheckAnswer(&d, &it); (err == nil) != want {
				t.Errorf("%v of %d answered by %v: %v", tc.place, tc.length, got, err)
			}
			it.Length = 99 // less than the least
			if got == rpcrdma2.ExplicitRDMA {
				it = outcome(&d, got, 99)
			}
			if err := CheckAnswer(&d, &it); err == nil && got != rpcrdma2.TooShort && got != rpcrdma2.NoItem {
				t.Errorf("%v answered by %v of 99 bytes", tc.place, got)
			}
		}
		if got := Choose(&d, 99, true); got != rpcrdma2.TooShort {
			t.Errorf("%v: %v for 99 bytes", tc.place, got)
		}
	}
}

// TestReturnedSegments: RDMA Writes have to be told as they were offered.
func TestReturnedSegments(t *testing.T) {
	d := direct(rpcrdma2.Choice, 0)
	for name, change := range map[string]func(*rpcrdma2.Item){
		"another length": func(it *rpcrdma2.Item) { it.Length -= 4 },
		"no segments":    func(it *rpcrdma2.Item) { it.Segments = nil },
		"another handle": func(it *rpcrdma2.Item) { it.Segments[0].Handle++ },
		"a gap":          func(it *rpcrdma2.Item) { it.Segments[0].Length -= 4; it.Segments[1].Length += 4 },
	} {
		it := outcome(&d, rpcrdma2.ExplicitRDMA, 6000)
		if err := CheckAnswer(&d, &it); err != nil {
			t.Fatal(err)
		}
		if change(&it); CheckAnswer(&d, &it) == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if got := Choose(&d, 0, true); got != rpcrdma2.TooShort {
		t.Errorf("%v for nothing", got)
	}
}

// TestSegmentsThatCameBack: the text leaves open how segments return that a result does not fill.
func TestSegmentsThatCameBack(t *testing.T) {
	d := direct(rpcrdma2.Choice, 0)
	d.Segments = append(d.Segments, rpcrdma2.Segment{Handle: 3, Length: 4096})
	back := func(lengths ...uint32) (list []rpcrdma2.Segment) {
		for k, n := range lengths {
			s := d.Segments[k]
			s.Length = n
			list = append(list, s)
		}
		return list
	}
	for _, tc := range []struct {
		length uint32
		good   bool
		back   []rpcrdma2.Segment
	}{
		{4999, true, back(4096, 903, 0)},
		{4999, true, back(4096, 904, 0)},
		{4999, true, back(4096, 903)},
		{4999, true, back(4096, 4096, 4096)},
		{4999, true, back(4096, 4096)},
		{4096, true, back(4096)},
		{12288, true, back(4096, 4096, 4096)},
		{4999, false, back(4096)},
		{4999, false, back(4096, 902)},
		{4999, false, back(4096, 905)},
		{4999, false, back(4092, 4096)},
		{4999, false, back(4096, 903, 1)},
		{4999, false, back(0, 4096, 903)},
		{12289, false, back(4096, 4096, 4096)},
		{1<<32 - 1, false, back(4096, 4096, 4096)},
		{4999, false, append(back(4096, 4096, 4096), rpcrdma2.Segment{Handle: 4})},
	} {
		it := rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: tc.length, Segments: tc.back}
		if err := CheckAnswer(&d, &it); (err == nil) != tc.good {
			t.Errorf("%d bytes in %+v: %v", tc.length, tc.back, err)
		}
	}
}
