package conn

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// placingRequester is one that has told the structure of its receives, and whose
// peer told what it itself would.
func placingRequester(t *testing.T, s *settings.Settings) *Requester {
	t.Helper()
	r := NewRequester(RequesterConfig{Receive: placedReceive, ToldSend: placedReceive, MaxReceives: 200, Version: rpcrdma2.Version, Settings: s})
	post(r, r.Start(nil))
	r.Connected(placedReceive, placedReceive)
	r.chars.Told, r.chars.Known = r.chars.Own, r.chars.Own
	r.chars.Peer = characteristics.Supported
	r.spend.Call()
	r.spend.Answer(64)
	post(r, r.wantReceives(nil))
	return r
}

// send plans and sends a call; change may change its plan.
func send(t *testing.T, r *Requester, o *Outgoing, change func(*Outgoing)) {
	t.Helper()
	must(t, r.Plan(o))
	if change != nil {
		change(o)
	}
	post(r, r.Prepare(o, nil))
	now, err := r.Begin(o)
	if err != nil || !now {
		t.Fatalf("%v, %v", now, err)
	}
	if _, ok := r.Launch(o, nil); !ok {
		t.Fatal(o.Err)
	}
	for i := range o.Windows {
		o.Windows[i].RKey, o.Windows[i].Addr = uint32(100+i), uint64(1000*i)
	}
	o.Build()
}

// answerDisp is where the item of an answer is.
const answerDisp = oncrpc.AcceptedReplySize + 4

// answer is an XMTRESP with one item, laid out for receives like ours if it is
// placed.
func answer(t *testing.T, xid uint32, it rpcrdma2.Item, length int) (sends [][]byte) {
	t.Helper()
	it.Disp = answerDisp
	return answerAt(t, xid, it, length)
}

// answerAt is answer with an item that says where it is.
func answerAt(t *testing.T, xid uint32, it rpcrdma2.Item, length int) (sends [][]byte) {
	t.Helper()
	stream := append(oncrpc.AppendAcceptedReply(nil, xid), 0, 0, 0, 9)
	if it.Place == rpcrdma2.TooShort {
		stream = append(stream, make([]byte, xdr.Padded(length))...)
	}
	c := oneItem{data: bytes.Repeat([]byte{0xda}, length)}
	resp := rpcrdma2.XmtResp{Items: []rpcrdma2.Item{it}}
	b := placement.Derive(placedReceive)
	s, err := placement.Read(&b)
	must(t, err)
	var l transmission.Layout
	if it.Place == rpcrdma2.TargetBuffer {
		l.Add(0, length)
	}
	if !l.Plan(&s, &placement.Message{
		Header: rpcrdma2.OptionalSize(resp.Size()) - 4*len(it.Targets), Continued: transmission.ContinueSize, Payload: len(stream),
		Limit: placedReceive, Most: transmission.Limit,
	}) {
		t.Fatal("not laid out")
	}
	if it.Place == rpcrdma2.TargetBuffer && it.Targets == nil {
		resp.Items[0].Targets = l.Targets(0)
	}
	var g transmission.Group
	begin, inline := g.Place(&l, []chunk.Piece{{From: chunk.Stream, Len: len(stream)}})
	resp.Count, resp.PayloadLength = uint32(len(l.Transmissions)), uint32(begin)
	h := Header{}
	h.XID, h.Version, h.Credits, h.Direction = xid, rpcrdma2.Version, 10, rpcrdma2.Reply
	g.Head(&h.Header, &resp)
	g.Number(&h.Header)
	sends = append(sends, c.body(&h, inline, stream))
	for i := range g.More {
		sends = append(sends, c.body(&Header{g.More[i].Header}, g.More[i].Inline, stream))
	}
	return sends
}

// all directions.
func all() map[rpcrdma2.Placement]bool {
	return map[rpcrdma2.Placement]bool{rpcrdma2.ExplicitRDMA: true, rpcrdma2.TargetBuffer: true, rpcrdma2.Choice: true, rpcrdma2.BySize: true}
}

// TestAnswers: what a requester takes is the table of rtrext §7.4, cell by cell;
// all else is a bad reply. Its memory is fenced if it exposed some.
func TestAnswers(t *testing.T) {
	const length = 5000
	segs := func(n uint32) []rpcrdma2.Segment { return []rpcrdma2.Segment{{Handle: 100, Length: n}} }
	for direct := range all() {
		for name, tc := range map[string]struct {
			it   rpcrdma2.Item
			good map[rpcrdma2.Placement]bool // by direction
		}{
			"EXRW": {rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: length, Segments: segs(length)},
				map[rpcrdma2.Placement]bool{rpcrdma2.ExplicitRDMA: true, rpcrdma2.Choice: true, rpcrdma2.BySize: true}},
			"EXRW below the threshold": {rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: length - 4, Segments: segs(length - 4)},
				map[rpcrdma2.Placement]bool{rpcrdma2.ExplicitRDMA: true, rpcrdma2.Choice: true}},
			"EXRW of another length": {rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: length, Segments: segs(length - 4)}, nil},
			"EXRW without memory":    {rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: length}, nil},
			"TBSN": {rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: length},
				map[rpcrdma2.Placement]bool{rpcrdma2.TargetBuffer: true, rpcrdma2.Choice: true}},
			"TBSN below the threshold": {rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: length - 4},
				map[rpcrdma2.Placement]bool{rpcrdma2.TargetBuffer: true, rpcrdma2.Choice: true, rpcrdma2.BySize: true}},
			"TBSN below the least":    {rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: 99}, nil},
			"TBSN above the largest":  {rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: 6001}, nil},
			"TBSN in no segment":      {rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: length - 4, Targets: []uint32{2, 3}}, nil},
			"TBSN at no offset":       {rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: length - 4, Offset: 4096, Targets: []uint32{0, 1}}, nil},
			"TBSN, both in one place": {rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: length - 4, Targets: []uint32{0, 0}}, nil},
			"TOOSHORT":                {rpcrdma2.Item{Place: rpcrdma2.TooShort, Length: 99}, all()},
			"NOITEM":                  {rpcrdma2.Item{Place: rpcrdma2.NoItem}, all()},
		} {
			r := placingRequester(t, placingSettings())
			o := &Outgoing{StreamLen: 60, MaxReply: 100, Results: []int{6000}}
			send(t, r, o, func(o *Outgoing) {
				it := &o.xmit.req.Results[0].Items[0]
				if it.Place != rpcrdma2.TargetBuffer || len(o.Windows) > 0 {
					t.Fatalf("directed to %d, with %d windows", it.Place, len(o.Windows))
				}
				it.MinLength = 100
				if it.Place = direct; direct != rpcrdma2.TargetBuffer {
					it.Threshold = length
					it.Segments = make([]rpcrdma2.Segment, 1+r.offer(o, WriteResult, 0, 6000))
				}
			})
			var acts []Action
			for i, msg := range answer(t, o.XID, tc.it, int(tc.it.Length)) {
				acts = r.Receive(uint32(i), msg, Invalidation{}, nil)
			}
			fence := find[Fence](acts)
			if (fence != nil) != (direct != rpcrdma2.TargetBuffer) {
				t.Errorf("%d answered by %s: fenced is %v", direct, name, fence != nil)
			}
			if fence != nil {
				acts = append(acts, r.Fenced(o, nil)...)
			}
			if find[Complete](acts) == nil {
				t.Fatalf("%d answered by %s: does not complete", direct, name)
			}
			if good := tc.good[direct]; good != (o.Err == nil) || (!good && !errors.Is(o.Err, ErrBadReply)) {
				t.Errorf("%d answered by %s: %v", direct, name, o.Err)
			}
			wrong := tc.it.Targets != nil && direct != rpcrdma2.ExplicitRDMA
			if c := find[Complain](acts); (c != nil) != wrong {
				t.Errorf("%d answered by %s: XMTERR is %v", direct, name, c != nil)
			}
			n := 0
			for _, run := range o.Placed {
				n += len(run.Data)
			}
			if want := int(tc.it.Length); o.Err == nil && tc.it.Place == rpcrdma2.TargetBuffer && (n != want || o.Written[0] != want) {
				t.Errorf("%d answered by %s: %d bytes, %d noted", direct, name, n, o.Written[0])
			}
		}
	}
}

// TestDisplacements: where a reply says that its items are has to be in the
// virtual XDR stream: after the RPC header, on a word, within it. All else is a
// bad reply and told with XMTERR.
func TestDisplacements(t *testing.T) {
	const length = 5000
	for name, tc := range map[string]struct {
		it   rpcrdma2.Item
		want *rpcrdma2.XmtError
	}{
		"behind its length":    {rpcrdma2.Item{Disp: answerDisp, Place: rpcrdma2.TargetBuffer, Length: length}, nil},
		"first of the results": {rpcrdma2.Item{Disp: answerDisp - 4, Place: rpcrdma2.TargetBuffer, Length: length}, nil},
		"in the RPC header":    {rpcrdma2.Item{Disp: answerDisp - 8, Place: rpcrdma2.TargetBuffer, Length: length}, &rpcrdma2.XmtError{Actual: 20, Min: 24, Max: 28}},
		"nowhere":              {rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: length}, &rpcrdma2.XmtError{Min: 24, Max: 28}},
		"not on a word":        {rpcrdma2.Item{Disp: answerDisp - 2, Place: rpcrdma2.TargetBuffer, Length: length}, &rpcrdma2.XmtError{Actual: 26, Min: 24, Max: 28}},
		"behind the end":       {rpcrdma2.Item{Disp: answerDisp + 4, Place: rpcrdma2.TargetBuffer, Length: length}, &rpcrdma2.XmtError{Actual: 32, Min: 24, Max: 28}},
		"far behind the end":   {rpcrdma2.Item{Disp: 1 << 30, Place: rpcrdma2.TargetBuffer, Length: length}, &rpcrdma2.XmtError{Actual: 1 << 30, Min: 24, Max: 28}},
		"in the stream":        {rpcrdma2.Item{Disp: answerDisp, Place: rpcrdma2.TooShort, Length: 99}, nil},
		"past its end":         {rpcrdma2.Item{Disp: answerDisp + 4, Place: rpcrdma2.TooShort, Length: 99}, &rpcrdma2.XmtError{Actual: 32, Min: 24, Max: 28}},
		"no item, no place":    {rpcrdma2.Item{Disp: 3, Place: rpcrdma2.NoItem}, nil},
	} {
		r := placingRequester(t, placingSettings())
		o := &Outgoing{StreamLen: 60, MaxReply: 200, Results: []int{6000}}
		send(t, r, o, nil)
		var acts []Action
		for i, msg := range answerAt(t, o.XID, tc.it, int(tc.it.Length)) {
			acts = r.Receive(uint32(i), msg, Invalidation{}, nil)
		}
		if (o.Err == nil) != (tc.want == nil) || (o.Err != nil && !errors.Is(o.Err, ErrBadReply)) {
			t.Errorf("%s: %v", name, o.Err)
		}
		if (find[Complain](acts) != nil) != (tc.want != nil) {
			t.Errorf("%s: XMTERR is %v", name, find[Complain](acts))
			continue
		}
		if tc.want == nil {
			continue
		}
		h := r.Complaint()
		tc.want.Code, tc.want.Bad = rpcrdma2.BadOffset, rpcrdma2.Transmission{XID: o.XID, Direction: rpcrdma2.Reply}
		var got rpcrdma2.XmtError
		if err := got.Decode(h.Info); err != nil || got != *tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, *tc.want)
		}
	}
}

// TestPlacedPlans: what goes by Send and what does not.
func TestPlacedPlans(t *testing.T) {
	item := func(n int) []chunk.Item { return []chunk.Item{{Pos: 56, Len: n}} }
	for name, tc := range map[string]struct {
		items   []chunk.Item
		results []int
		change  func(*settings.Settings, *Requester)
		group   bool // it goes in transmissions
		sends   uint32
		spare   uint32
		windows int
	}{
		"small":                    {items: item(999), sends: 1},
		"item":                     {items: item(8192), group: true, sends: 1},
		"longer item":              {items: item(8193), group: true, sends: 2},
		"two items":                {items: []chunk.Item{{Pos: 44, Len: 1000}, {Pos: 56, Len: 1000}}, group: true, sends: 1},
		"item for 8":               {items: item(8 * 8192), group: true, sends: 8},
		"item for 9":               {items: item(8*8192 + 1), sends: 1, windows: 1},
		"result":                   {results: []int{8192}, group: true, sends: 1},
		"longer result":            {results: []int{8193}, group: true, sends: 1, spare: 1},
		"result for 9":             {results: []int{8*8192 + 1}, group: true, sends: 1, windows: 1},
		"two results, small first": {results: []int{5, 4000}, group: true, sends: 1},
		"item and result":          {items: item(4000), results: []int{4000}, group: true, sends: 1},
		"off":                      {items: item(4000), results: []int{4000}, sends: 1, windows: 2, change: func(s *settings.Settings, _ *Requester) { s.Extensions &^= settings.ExtSendDDP }},
		"peer has no targets":      {items: item(4000), sends: 1, windows: 1, change: func(_ *settings.Settings, r *Requester) { r.chars.Told.Buffer = rpcrdma2.Buffer{} }},
		"peer's make no sense": {items: item(4000), sends: 1, windows: 1, change: func(_ *settings.Settings, r *Requester) {
			r.chars.Told.Buffer = rpcrdma2.Buffer{Length: 5, Groups: make([]rpcrdma2.BufferGroup, 1)}
		}},
		"ours are not told":         {results: []int{4000}, sends: 1, windows: 1, change: func(_ *settings.Settings, r *Requester) { r.chars.Known.Buffer = rpcrdma2.Buffer{} }},
		"peer's are far apart":      {items: item(4000), sends: 1, windows: 1, change: func(s *settings.Settings, r *Requester) { s.InlineSendMax = 65536; far(r) }},
		"peer takes no requests":    {items: item(4000), sends: 1, windows: 1, change: func(_ *settings.Settings, r *Requester) { r.chars.Told.RTR = 0 }},
		"peer takes one Send":       {items: item(8193), sends: 1, windows: 1, change: func(_ *settings.Settings, r *Requester) { r.chars.Told.RequestReceive = 1 }},
		"peer makes one Send":       {results: []int{8193}, group: true, sends: 1, windows: 1, change: func(_ *settings.Settings, r *Requester) { r.chars.Told.ResponseSend = 1 }},
		"our Sends are short":       {items: item(4096), sends: 1, windows: 1, change: func(s *settings.Settings, _ *Requester) { s.InlineSendMax = 5119 }},
		"our Sends are long enough": {items: item(4096), group: true, sends: 1, change: func(s *settings.Settings, _ *Requester) { s.InlineSendMax = 5120 }},
		"two Sends of one page":     {items: item(8192), group: true, sends: 2, change: func(s *settings.Settings, _ *Requester) { s.InlineSendMax = 5120 }},
	} {
		s := placingSettings()
		r := placingRequester(t, s)
		if tc.change != nil {
			now := *s
			r.SetSettings(&now, nil)
			tc.change(&now, r)
			r.settings = now
		}
		o := &Outgoing{StreamLen: 60, MaxReply: 100, Items: tc.items, Results: tc.results}
		send(t, r, o, nil)
		if o.transmitted != tc.group || o.uses != tc.sends || len(o.Windows) != tc.windows || (tc.group && o.xmit.spare != tc.spare) || len(o.More) != int(tc.sends)-1 {
			t.Errorf("%s: transmissions %v, %d sends, %d windows: %s", name, o.transmitted, o.uses, len(o.Windows), o.text())
		}
	}
}

// TestStructureChanges: a call that waited for a credit while the peer told
// another structure is planned anew.
func TestStructureChanges(t *testing.T) {
	r := placingRequester(t, placingSettings())
	o := &Outgoing{StreamLen: 60, MaxReply: 100, Items: []chunk.Item{{Pos: 56, Len: 4096}}}
	if err := r.Plan(o); err != nil || !o.transmitted || !o.xmit.placed {
		t.Fatal(err)
	}
	if now, err := r.Begin(o); !now || err != nil {
		t.Fatal(err)
	}
	set := rpcrdma2.Set{r.chars.Own.Encode(rpcrdma2.CharReceiveSize), r.chars.Own.Encode(rpcrdma2.CharReceiveBuffer)}
	must(t, r.chars.Learn(set))
	if _, ok := r.Launch(o, nil); ok || !errors.Is(o.Err, ErrReplan) {
		t.Errorf("%v, %v", ok, o.Err)
	}
}

// far has the peer tell a target segment behind a long plain one.
func far(r *Requester) {
	r.chars.Told.ReceiveSize = 65536
	r.chars.Told.Buffer = rpcrdma2.Buffer{Length: 65536, Groups: []rpcrdma2.BufferGroup{
		{Count: 1, Length: 61440}, {Count: 1, Length: 4096, Align: 4096, Flags: rpcrdma2.TargetableFlag},
	}}
}
