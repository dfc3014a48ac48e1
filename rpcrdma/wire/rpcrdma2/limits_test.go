package rpcrdma2

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wiretest"
)

// TestLimits decodes lists that are just within and just over each limit.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int
		build func(n int) Body
	}{
		{"characteristics", MaxCharacteristics, func(n int) Body { return &Update{Now: make(Set, n)} }},
		{"subset", MaxSubsetWords, func(n int) Body { return &Init{NoChange: make(Subset, n)} }},
		{"items", MaxItems, func(n int) Body { return &XmtResp{Items: placed(n)} }},
		{"segments of an item", MaxSegments, func(n int) Body {
			return &XmtResp{Items: []Item{{Place: ExplicitRDMA, Segments: make([]Segment, n)}}}
		}},
		{"targets of an item", MaxTargets, func(n int) Body {
			return &XmtResp{Items: []Item{{Place: TargetBuffer, Targets: make([]uint32, n)}}}
		}},
		{"ranges", MaxRanges, func(n int) Body { return &XmtReq{Results: make([]ResultSet, n)} }},
		{"items of a range", MaxItems, func(n int) Body {
			s := ResultSet{Items: make([]ResultItem, n)}
			for i := range s.Items {
				s.Items[i].Place = TargetBuffer
			}
			return &XmtReq{Results: []ResultSet{s}}
		}},
		{"segments of a direction", MaxSegments, func(n int) Body {
			return &XmtReq{Results: []ResultSet{{Items: []ResultItem{{Place: BySize, Segments: make([]Segment, n)}}}}}
		}},
		{"segments of a reply chunk", MaxSegments, func(n int) Body {
			return &XmtReq{HasReply: true, Reply: make(WriteChunk, n)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{c.limit, c.limit + 1, 1000} {
				want := c.build(n)
				got := bodies[want.Type()].ours()
				err := got.Decode(want.Append(nil))
				if n == c.limit && (err != nil || text(got) != text(want)) {
					t.Errorf("%d: %v", n, err)
				}
				if n > c.limit && !errors.Is(err, errCount) {
					t.Errorf("%d: %v, want %v", n, err, errCount)
				}
			}
		})
	}
	for n, want := range map[int]error{MaxGroups: nil, MaxGroups + 1: errCount} {
		var b Buffer
		if err := b.Decode((&Buffer{Groups: make([]BufferGroup, n)}).Append(nil)); !errors.Is(err, want) {
			t.Errorf("%d groups: %v, want %v", n, err, want)
		}
	}
	h := Header{Header: rpcrdma1.Header{Version: Version, Proc: Msg, Reads: make([]ReadSegment, rpcrdma1.MaxReadSegments+1)}}
	var got Header
	if _, err := got.Decode(h.Append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("read list too long: %v", err)
	}
}

func placed(n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i].Place = NoItem
	}
	return items
}

// TestHugeCounts: nothing grows for a count whose elements can't be there.
func TestHugeCounts(t *testing.T) {
	for _, body := range []Body{new(Init), new(Request), new(Respond), new(Update), new(XmtReq), new(XmtResp)} {
		for _, data := range []string{"0000000f", "0000000f 00000000 00000000", "ffffffff 00000000 00000000"} {
			b := wiretest.Unhex(t, data)
			var err error
			if n := testing.AllocsPerRun(10, func() { err = body.Decode(b) }); n != 0 || !errors.Is(err, ErrMalformed) {
				t.Errorf("%T of %s: %v allocations, %v", body, data, n, err)
			}
		}
	}
}

func TestBodiesMalformed(t *testing.T) {
	for _, c := range []struct {
		name string
		body Body
		data string
		want error
	}{
		{"nothing", new(Init), "", errTruncated},
		{"bytes behind", new(Update), "00000000 00000000", errTrailing},
		{"odd bytes behind", new(Request), "00000000 00", errTrailing},
		{"value cut off", new(Update), "00000001 00000001 00000004 0000", errTruncated},
		{"value without roundup", new(Update), "00000001 00000001 00000001 01", errTruncated},
		{"value longer than can be", new(Update), "00000001 00000001 00010004", errCount},
		{"CHOICE as an outcome", new(XmtResp), "00000001 00000000 00000000 00000003 00000000 00000001 00000000", errLocation},
		{"BYSIZE as an outcome", new(XmtResp), "00000001 00000000 00000000 00000004 00000000 00000001 00000000", errLocation},
		{"place 0", new(XmtResp), "00000001 00000000 00000000 00000000 00000001 00000000", errLocation},
		{"place 7", new(XmtResp), "00000001 00000000 00000000 00000007 00000001 00000000", errLocation},
		{"TOOSHORT as a direction", new(XmtReq), "00000000 00000001 00000000 00000000 00000001 00000000 00000005 00000001 00000000 00000000 00000000", errLocation},
		{"NOITEM as a direction", new(XmtReq), "00000000 00000001 00000000 00000000 00000001 00000000 00000006 00000001 00000000 00000000 00000000", errLocation},
		{"reply chunk word 2", new(XmtReq), "00000000 00000000 00000001 00000000 00000002 00000000", errPresent},
		{"lead word 2", new(XmtError), "00000001 00000000 00000000 00000002 00000003", errPresent},
		{"direction 2", new(XmtError), "00000001 00000002 00000000 00000000 00000003", errDirection},
		{"error 0", new(XmtError), "00000001 00000000 00000000 00000000 00000000", errCode},
		{"error 9", new(XmtError), "00000001 00000000 00000000 00000000 00000009", errCode},
		{"error without its range", new(XmtError), "00000001 00000000 00000000 00000000 00000008 00000000", errTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.body.Decode(wiretest.Unhex(t, c.data)); !errors.Is(err, c.want) || !errors.Is(err, ErrMalformed) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
