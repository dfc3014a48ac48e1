package conn

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Operations of a call that is 4148 bytes long, of which 40 are its header.
var (
	opened  = xdr.Span{Begin: 0, End: 12}
	wrote   = xdr.Span{Begin: 12, End: 4104}
	gotAttr = xdr.Span{Begin: 4104, End: 4108}
)

// TestRanges: a result goes where the range of its operation directs it, in order
// within that, and each direction gets one item.
func TestRanges(t *testing.T) {
	const none, inline, written = rpcrdma2.NoItem, rpcrdma2.TooShort, rpcrdma2.ExplicitRDMA
	set := func(begin, end uint32, least ...uint32) rpcrdma2.ResultSet {
		s := rpcrdma2.ResultSet{Begin: begin, End: end}
		for _, n := range least {
			s.Items = append(s.Items, rpcrdma2.ResultItem{MinLength: n, Place: written})
		}
		return s
	}
	of := func(asked xdr.Span, n int) chunk.Item { return chunk.Item{Len: n, Asked: asked} }
	for name, tc := range map[string]struct {
		sets  []rpcrdma2.ResultSet
		items []chunk.Item
		want  []rpcrdma2.Placement
		stags []uint32 // written to, in order: the number of the direction
	}{
		"one operation, whole call":     {[]rpcrdma2.ResultSet{set(0, 4148, 1)}, []chunk.Item{of(xdr.Span{}, 5000)}, []rpcrdma2.Placement{written}, []uint32{0}},
		"one operation, its arguments":  {[]rpcrdma2.ResultSet{set(40, 44, 1)}, []chunk.Item{of(xdr.Span{}, 5000)}, []rpcrdma2.Placement{written}, []uint32{0}},
		"not the range of the header":   {[]rpcrdma2.ResultSet{set(0, 40, 1)}, []chunk.Item{of(xdr.Span{}, 5000)}, []rpcrdma2.Placement{none}, nil},
		"no range of it":                {[]rpcrdma2.ResultSet{set(4148, 5000, 1)}, []chunk.Item{of(xdr.Span{}, 5000)}, []rpcrdma2.Placement{none}, nil},
		"two ranges share it":           {[]rpcrdma2.ResultSet{set(40, 44, 1), set(44, 4148, 1)}, []chunk.Item{of(xdr.Span{}, 5000)}, []rpcrdma2.Placement{none, none}, nil},
		"a range each":                  {[]rpcrdma2.ResultSet{set(40, 52, 1), set(52, 4144, 1)}, []chunk.Item{of(opened, 4000), of(wrote, 5000)}, []rpcrdma2.Placement{written, written}, []uint32{0, 1}},
		"the second alone has one":      {[]rpcrdma2.ResultSet{set(40, 52, 1), set(52, 4144, 1)}, []chunk.Item{of(wrote, 5000)}, []rpcrdma2.Placement{none, written}, []uint32{1}},
		"the first is not there":        {[]rpcrdma2.ResultSet{set(40, 52, 1), set(52, 4144, 1)}, []chunk.Item{{Absent: true}, of(wrote, 5000)}, []rpcrdma2.Placement{none, written}, []uint32{1}},
		"the first is empty":            {[]rpcrdma2.ResultSet{set(40, 52, 1), set(52, 4144, 1)}, []chunk.Item{of(opened, 0), of(wrote, 5000)}, []rpcrdma2.Placement{inline, written}, []uint32{1}},
		"the first is short":            {[]rpcrdma2.ResultSet{set(40, 52, 1000), set(52, 4144, 1)}, []chunk.Item{of(opened, 999), of(wrote, 5000)}, []rpcrdma2.Placement{inline, written}, []uint32{1}},
		"the first has no range":        {[]rpcrdma2.ResultSet{set(52, 4144, 1)}, []chunk.Item{of(opened, 2000), of(wrote, 5000)}, []rpcrdma2.Placement{written}, []uint32{0}},
		"one range of two operations":   {[]rpcrdma2.ResultSet{set(40, 4144, 1000, 1)}, []chunk.Item{of(opened, 999), of(wrote, 5000)}, []rpcrdma2.Placement{inline, written}, []uint32{1}},
		"a part of its operation":       {[]rpcrdma2.ResultSet{set(44, 48, 1), set(56, 60, 1)}, []chunk.Item{of(opened, 4000), of(wrote, 5000)}, []rpcrdma2.Placement{written, written}, []uint32{0, 1}},
		"more results than directions":  {[]rpcrdma2.ResultSet{set(40, 52, 1), set(52, 4144, 1)}, []chunk.Item{of(opened, 2000), of(opened, 2000), of(wrote, 5000)}, []rpcrdma2.Placement{written, written}, []uint32{0, 1}},
		"more directions than results":  {[]rpcrdma2.ResultSet{set(40, 52, 1, 1), set(52, 4144, 1)}, []chunk.Item{of(opened, 2000), of(wrote, 5000)}, []rpcrdma2.Placement{written, none, written}, []uint32{0, 2}},
		"an empty range":                {[]rpcrdma2.ResultSet{set(40, 40, 1), set(52, 4144, 1)}, []chunk.Item{of(opened, 2000), of(wrote, 5000)}, []rpcrdma2.Placement{none, written}, []uint32{1}},
		"a range without directions":    {[]rpcrdma2.ResultSet{set(40, 52), set(52, 4144, 1)}, []chunk.Item{of(opened, 2000), of(wrote, 5000)}, []rpcrdma2.Placement{written}, []uint32{0}},
		"the third of three operations": {[]rpcrdma2.ResultSet{set(40, 52, 1), set(52, 4144, 1), set(4144, 4148, 1)}, []chunk.Item{of(gotAttr, 5000)}, []rpcrdma2.Placement{none, none, written}, []uint32{2}},
	} {
		r := placingResponder(t)
		var c oneItem
		c.lay(t, 5, 4096, func(q *rpcrdma2.XmtReq) {
			q.Results, q.ReceiveBuffers = tc.sets, 3
			for k := range tc.want {
				placement.Direction(q.Results, k).Segments = []rpcrdma2.Segment{{Handle: uint32(k), Length: 6000, Offset: 100}}
			}
		})
		a := find[Deliver](c.receive(r))
		if a == nil {
			t.Fatalf("%s: not delivered", name)
		}
		for i := range tc.items {
			tc.items[i].Pos = oncrpc.AcceptedReplySize + 4*(i+1)
		}
		sent := find[Send](r.Reply(a.Call, oncrpc.AcceptedReplySize+4*len(tc.items), tc.items, nil))
		var resp rpcrdma2.XmtResp
		if h := sent.Call.Answer.Header; h.Option != rpcrdma2.OptXmtResp || resp.Decode(h.Info) != nil || len(resp.Items) != len(tc.want) {
			t.Errorf("%s: %s", name, formatHeader(h))
			continue
		}
		for k := range resp.Items {
			if resp.Items[k].Place != tc.want[k] {
				t.Errorf("%s: direction %d is answered by %d, want %d", name, k, resp.Items[k].Place, tc.want[k])
			}
		}
		var stags []uint32
		for _, w := range sent.Call.Answer.Writes {
			stags = append(stags, w.RKey)
		}
		if !slices.Equal(stags, tc.stags) {
			t.Errorf("%s: written to %v, want %v", name, stags, tc.stags)
		}
	}
}

// TestRangesInPlainReplies: a reply that has to go in a plain message gives back
// each direction's chunk with what belongs there.
func TestRangesInPlainReplies(t *testing.T) {
	r := placingResponder(t)
	var c oneItem
	c.lay(t, 5, 4096, func(q *rpcrdma2.XmtReq) {
		q.HasReply, q.Reply = true, []rpcrdma2.Segment{{Handle: 9, Length: 30000}}
		for k, begin := range []uint32{40, 52, 4144} {
			q.Results = append(q.Results, rpcrdma2.ResultSet{Begin: begin, End: begin + 4, Items: []rpcrdma2.ResultItem{
				{Place: rpcrdma2.ExplicitRDMA, Segments: []rpcrdma2.Segment{{Handle: uint32(k), Length: 6000}}},
			}})
		}
	})
	a := find[Deliver](c.receive(r))
	const long = 20000 // with no more than one Send
	sent := find[Send](r.Reply(a.Call, long, []chunk.Item{{Pos: 28, Len: 5000, Asked: wrote}, {Pos: 32, Len: 3000, Asked: gotAttr}}, nil))
	h := sent.Call.Answer.Header
	if h.Proc != 1 || len(h.Writes) != 3 || h.Writes[0][0].Length != 0 || h.Writes[1][0].Length != 5000 || h.Writes[2][0].Length != 3000 {
		t.Fatal(formatHeader(h))
	}
	var stags []uint32
	for _, w := range sent.Call.Answer.Writes {
		stags = append(stags, w.RKey)
	}
	if !slices.Equal(stags, []uint32{1, 2, 9}) {
		t.Errorf("written to %v", stags)
	}
}

// TestRangesModel: whatever ranges and results there are, no two results go with one
// direction, each goes with one whose range its operation is in, and with the
// first that is free there.
func TestRangesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := func(from int) xdr.Span {
			begin := from + rapid.IntRange(0, 5).Draw(t, "gap")
			return xdr.Span{Begin: begin, End: begin + rapid.IntRange(0, 8).Draw(t, "length")}
		}
		var sets []rpcrdma2.ResultSet
		at := 0
		for range rapid.IntRange(0, 5).Draw(t, "sets") {
			s := span(at)
			sets = append(sets, rpcrdma2.ResultSet{
				Begin: uint32(s.Begin), End: uint32(s.End), Items: make([]rpcrdma2.ResultItem, rapid.IntRange(0, 3).Draw(t, "directions")),
			})
			at = s.End + 1
		}
		if !rpcrdma2.Ordered(sets) {
			t.Fatalf("%v", sets)
		}
		args := xdr.Span{Begin: 10, End: 10 + rapid.IntRange(0, 40).Draw(t, "arguments")}
		items, from := make([]chunk.Item, rapid.IntRange(0, 6).Draw(t, "results")), 0
		for i := range items {
			items[i].Absent = rapid.Bool().Draw(t, "absent")
			if rapid.Bool().Draw(t, "several operations") {
				items[i].Asked = span(from)
				from = items[i].Asked.End
			}
		}
		placement.Tie(items, sets, args)
		free := make([]int, len(sets)) // the next of each
		for i := range items {
			asked := args
			if !items[i].Asked.Empty() {
				asked = xdr.Span{Begin: items[i].Asked.Begin + 10, End: items[i].Asked.End + 10}
			}
			meets, set, first, n := 0, 0, 0, 0
			for k := range sets {
				shared := false
				for b := asked.Begin; b < asked.End; b++ {
					shared = shared || (b >= int(sets[k].Begin) && b < int(sets[k].End))
				}
				if shared {
					meets, set, first = meets+1, k, n
				}
				n += len(sets[k].Items)
			}
			want := -1
			if meets == 1 && !items[i].Absent && free[set] < len(sets[set].Items) {
				want = first + free[set]
				free[set]++
			}
			if items[i].Into != want {
				t.Fatalf("result %d goes with %d, want %d", i, items[i].Into, want)
			}
		}
	})
}

// TestOperationsHaveRanges: a requester says which operation each direction is for,
// as far as it knows.
func TestOperationsHaveRanges(t *testing.T) {
	for name, tc := range map[string]struct {
		asked []xdr.Span
		want  []xdr.Span // of the sets
		each  []int      // directions
	}{
		"not known":            {nil, []xdr.Span{{Begin: 0, End: 60}}, []int{3}},
		"not of all":           {[]xdr.Span{{Begin: 40, End: 48}, {}, {Begin: 48, End: 60}}, []xdr.Span{{Begin: 0, End: 60}}, []int{3}},
		"three":                {[]xdr.Span{{Begin: 40, End: 48}, {Begin: 48, End: 52}, {Begin: 52, End: 60}}, []xdr.Span{{Begin: 40, End: 48}, {Begin: 48, End: 52}, {Begin: 52, End: 60}}, []int{1, 1, 1}},
		"one of two results":   {[]xdr.Span{{Begin: 40, End: 48}, {Begin: 40, End: 48}, {Begin: 52, End: 60}}, []xdr.Span{{Begin: 40, End: 48}, {Begin: 52, End: 60}}, []int{2, 1}},
		"in no order":          {[]xdr.Span{{Begin: 52, End: 60}, {Begin: 40, End: 48}, {Begin: 48, End: 52}}, []xdr.Span{{Begin: 0, End: 60}}, []int{3}},
		"behind the call":      {[]xdr.Span{{Begin: 40, End: 48}, {Begin: 48, End: 52}, {Begin: 52, End: 64}}, []xdr.Span{{Begin: 0, End: 60}}, []int{3}},
		"one within another":   {[]xdr.Span{{Begin: 40, End: 60}, {Begin: 48, End: 52}, {Begin: 52, End: 60}}, []xdr.Span{{Begin: 0, End: 60}}, []int{3}},
		"fewer than there are": {[]xdr.Span{{Begin: 40, End: 60}}, []xdr.Span{{Begin: 0, End: 60}}, []int{3}},
	} {
		for _, place := range []settings.Placement{settings.PlaceSent, settings.PlaceChosen, settings.PlaceBySize} {
			s := placingSettings()
			s.Placement = place
			r := placingRequester(t, s)
			o := &Outgoing{StreamLen: 60, MaxReply: 200, Results: []int{4000, 10, 4000}, Asked: tc.asked}
			send(t, r, o, nil)
			var got []xdr.Span
			var each []int
			for _, set := range o.xmit.req.Results {
				got, each = append(got, xdr.Span{Begin: int(set.Begin), End: int(set.End)}), append(each, len(set.Items))
			}
			if !o.transmitted || !slices.Equal(got, tc.want) || !slices.Equal(each, tc.each) || !rpcrdma2.Ordered(o.xmit.req.Results) {
				t.Errorf("%s, %d: %v of %v, %s", name, place, got, each, o.text())
			}
		}
	}
}

// TestPlacements: what each value of ddp.placement asks for.
func TestPlacements(t *testing.T) {
	const exrw, tbsn, choice, bysize = rpcrdma2.ExplicitRDMA, rpcrdma2.TargetBuffer, rpcrdma2.Choice, rpcrdma2.BySize
	for name, tc := range map[string]struct {
		results []int
		spare   map[settings.Placement]uint32 // none elsewhere
		want    map[settings.Placement][]rpcrdma2.Placement
		parts   []uint32 // thresholds with bysize
		alone   bool     // without continuation
	}{
		"one that fits": {results: []int{8000}, want: map[settings.Placement][]rpcrdma2.Placement{settings.PlaceSent: {tbsn}, settings.PlaceChosen: {choice}, settings.PlaceBySize: {tbsn}}},
		"one in two Sends": {results: []int{9000}, spare: map[settings.Placement]uint32{settings.PlaceSent: 1, settings.PlaceChosen: 1, settings.PlaceBySize: 1},
			want: map[settings.Placement][]rpcrdma2.Placement{settings.PlaceSent: {tbsn}, settings.PlaceChosen: {choice}, settings.PlaceBySize: {tbsn}}},
		"one for more than one Send": {results: []int{9000}, alone: true, parts: []uint32{8193},
			want: map[settings.Placement][]rpcrdma2.Placement{settings.PlaceChosen: {choice}, settings.PlaceBySize: {bysize}}},
		"one far too large": {results: []int{1 << 20}, parts: []uint32{8193},
			want: map[settings.Placement][]rpcrdma2.Placement{settings.PlaceChosen: {choice}, settings.PlaceBySize: {bysize}}},
		"small, then too large": {results: []int{4000, 9000}, alone: true, parts: []uint32{0, 4097},
			want: map[settings.Placement][]rpcrdma2.Placement{settings.PlaceChosen: {choice, choice}, settings.PlaceBySize: {tbsn, bysize}}},
		"too large, then small": {results: []int{9000, 4000}, alone: true, parts: []uint32{4097, 0},
			want: map[settings.Placement][]rpcrdma2.Placement{settings.PlaceChosen: {choice, choice}, settings.PlaceBySize: {bysize, tbsn}}},
		"more than there are pages": {results: []int{9000, 9000, 9000}, alone: true, parts: []uint32{0, 4097, 4097},
			want: map[settings.Placement][]rpcrdma2.Placement{settings.PlaceChosen: {choice, choice, choice}, settings.PlaceBySize: {exrw, bysize, bysize}}},
	} {
		for _, place := range []settings.Placement{settings.PlaceWritten, settings.PlaceSent, settings.PlaceChosen, settings.PlaceBySize} {
			s := placingSettings()
			if s.Placement = place; tc.alone {
				s.Extensions &^= settings.ExtContinuation
			}
			r := placingRequester(t, s)
			o := &Outgoing{StreamLen: 60, MaxReply: 100, Results: tc.results}
			send(t, r, o, nil)
			var got []rpcrdma2.Placement
			var parts []uint32
			for k := 0; o.transmitted && k < len(tc.results); k++ {
				d := placement.Direction(o.xmit.req.Results, k)
				got = append(got, d.Place)
				if parts = append(parts, d.Threshold); (d.Place != rpcrdma2.TargetBuffer) != (len(d.Segments) > 0) {
					t.Errorf("%s, %d: %+v", name, place, d)
				}
			}
			if !slices.Equal(got, tc.want[place]) || (o.transmitted && o.xmit.spare != tc.spare[place]) {
				t.Errorf("%s, %d: %v with %d more receives, want %v", name, place, got, o.xmit.spare, tc.want[place])
			}
			if place == settings.PlaceBySize && tc.parts != nil && !slices.Equal(parts, tc.parts) {
				t.Errorf("%s: thresholds %v, want %v", name, parts, tc.parts)
			}
		}
	}
}

// TestResultOfNoArguments: a call that has no arguments gets its result where the
// range of the whole call directs it, however long the rest of the reply is.
func TestResultOfNoArguments(t *testing.T) {
	p := agreedPair(t)
	k := &pairCall{out: &Outgoing{StreamLen: 40}, reply: 4096, results: []int{8192}}
	p.call(k)
	p.finish(first)
	if !k.out.transmitted || k.out.Err != nil || len(k.out.Written) != 1 || k.out.Written[0] != 8192 {
		t.Errorf("in transmissions %v: %s", k.out.transmitted, k.outcome)
	}
}
