package conn

import (
	"bytes"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// placedReceive is the size of receives with a plain segment of 1024 bytes and
// two pages.
const placedReceive = 9216

func placingSettings() *settings.Settings {
	s := settings.Default()
	s.Extensions |= settings.ExtV2Only | settings.ExtCharacteristics | settings.ExtXmit | settings.ExtContinuation | settings.ExtSendDDP
	s.InlineReceiveSize, s.InlineSendMax, s.DDPMinChunk = placedReceive, placedReceive, 1000
	return &s
}

// placingResponder is one whose peer told what it itself would.
func placingResponder(t *testing.T) *Responder {
	t.Helper()
	r := NewResponder(ResponderConfig{
		PeerReceive: placedReceive, ToldSend: placedReceive, MaxTransfer: 1 << 20, MaxReceives: 100,
		Receive: placedReceive, Settings: placingSettings(),
	})
	postCalls(r, r.Start(nil))
	r.chars.Told = r.chars.Own
	return r
}

// oneItem is a call with data of n bytes apart, as it goes out: the RPC header,
// the length of the data, a trailer.
type oneItem struct {
	req   rpcrdma2.XmtReq
	data  []byte
	sends [][]byte
}

// lay builds the Sends of the call; change may spoil what it says of itself.
func (c *oneItem) lay(t *testing.T, xid uint32, n int, change func(*rpcrdma2.XmtReq)) {
	t.Helper()
	c.data = bytes.Repeat([]byte{0xda}, n)
	stream := oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 1, Version: 1})
	stream = xdr.AppendUint32(stream, uint32(n))
	disp := len(stream)
	stream = xdr.AppendUint32(stream, 7)
	c.req.Items = []rpcrdma2.Item{{Disp: uint32(disp), Length: uint32(n), Place: rpcrdma2.TargetBuffer}}
	b := placement.Derive(placedReceive)
	s, err := placement.Read(&b)
	must(t, err)
	var l transmission.Layout
	l.Add(0, n)
	if !l.Plan(&s, &placement.Message{
		Header: rpcrdma2.OptionalSize(c.req.Size()), Continued: transmission.ContinueSize, Payload: len(stream),
		Limit: placedReceive, Most: transmission.Limit,
	}) {
		t.Fatal("not laid out")
	}
	c.req.Items[0].Targets = l.Targets(0)
	c.req.Count = uint32(len(l.Transmissions))
	var g transmission.Group
	begin, inline := g.Place(&l, []chunk.Piece{{From: chunk.Stream, Len: len(stream)}})
	c.req.PayloadLength = uint32(begin)
	if change != nil {
		change(&c.req)
	}
	h := Header{}
	h.XID, h.Version, h.Credits, h.Direction = xid, rpcrdma2.Version, 10, rpcrdma2.Call
	g.Head(&h.Header, &c.req)
	g.Number(&h.Header)
	c.sends = append(c.sends[:0], c.body(&h, inline, stream))
	for i := range g.More {
		c.sends = append(c.sends, c.body(&Header{g.More[i].Header}, g.More[i].Inline, stream))
	}
}

// body is a Send of pieces.
func (c *oneItem) body(h *Header, pieces []chunk.Piece, stream []byte) []byte {
	b := h.Append(nil)
	for _, p := range pieces {
		switch p.From {
		case chunk.Stream:
			b = append(b, stream[p.Off:p.Off+p.Len]...)
		case chunk.Zeros:
			b = append(b, make([]byte, p.Len)...)
		default:
			b = append(b, c.data[p.Off:p.Off+p.Len]...)
		}
	}
	return b
}

// receive gives the Sends to r and what it does with the last.
func (c *oneItem) receive(r *Responder) (acts []Action) {
	for i, msg := range c.sends {
		acts = r.Receive(uint32(i), msg, nil)
	}
	return acts
}

// firstOf gives the first action of a type.
func firstOf[T Action](acts []Action) (a T, ok bool) {
	for i := range acts {
		if a, ok = acts[i].(T); ok {
			break
		}
	}
	return a, ok
}

// find is firstOf; nil is that there is none.
func find[T Action](acts []Action) *T {
	if a, ok := firstOf[T](acts); ok {
		return &a
	}
	return nil
}

// is says whether an action is of a type.
func is[T Action](a Action) bool {
	_, is := a.(T)
	return is
}

// inside says whether part lies within b: the same memory.
func inside(part, b []byte) bool {
	for off := range b {
		if &b[off] == &part[0] {
			return off+len(part) <= len(b)
		}
	}
	return false
}

// TestPlacedArguments: the service sees the bytes of the receives, in as many
// parts as there are receives.
func TestPlacedArguments(t *testing.T) {
	for n, parts := range map[int]int{1: 1, 4096: 1, 8192: 1, 8193: 2, 30000: 4, 8 * 8192: 8} {
		r := placingResponder(t)
		var c oneItem
		c.lay(t, 5, n, nil)
		a := find[Deliver](c.receive(r))
		if a == nil || len(a.Call.RPC.Args.Items) != 1 {
			t.Fatalf("%d bytes: not delivered", n)
		}
		it := a.Call.RPC.Args.Items[0]
		all := append([][]byte{it.Data}, it.More...)
		if it.Len() != n || it.Pos != 4 || len(all) != parts || len(a.Call.RPC.Args.Stream) != 8 {
			t.Errorf("%d bytes: item of %d at %d in %d parts", n, it.Len(), it.Pos, len(all))
		}
		for i, part := range all {
			if !inside(part, c.sends[i]) {
				t.Errorf("%d bytes: part %d is not in its receive", n, i)
			}
		}
		d := xdr.NewDecoder(a.Call.RPC.Args.Stream)
		if got := a.Call.RPC.Args.Opaque(&d, n); !bytes.Equal(got, c.data) || d.Uint32() != 7 {
			t.Errorf("%d bytes: other data", n)
		}
	}
}

// TestReverseDirections: a call to the client may direct results into Sends, which is no chunk.
// They stay in the payload stream. Memory for a result is a chunk.
func TestReverseDirections(t *testing.T) {
	forward := placingSettings()
	reverse := forward.Reverse()
	q := NewRequester(RequesterConfig{Receive: placedReceive, ToldSend: placedReceive, MaxReceives: 200, Version: rpcrdma2.Version, Settings: forward})
	r := NewResponder(ResponderConfig{
		PeerReceive: placedReceive, ToldSend: placedReceive, MaxReceives: 100, Receive: placedReceive, Reverse: true, Settings: &reverse,
	})
	postCalls(r, r.Start(nil))
	var in Inbound
	in.Replies(q)
	in.Calls(r, true)
	memory := []rpcrdma2.Segment{{Handle: 1, Length: 5000}}
	for i, d := range []rpcrdma2.ResultItem{
		{MinLength: 1, Place: rpcrdma2.TargetBuffer}, {Place: rpcrdma2.Choice}, {Place: rpcrdma2.BySize, Threshold: 9000},
		{Place: rpcrdma2.Choice, Segments: memory}, {Place: rpcrdma2.ExplicitRDMA, Segments: memory},
	} {
		xid := uint32(i + 1)
		stream := oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 1, Version: 1})
		req := rpcrdma2.XmtReq{Results: []rpcrdma2.ResultSet{{End: uint32(len(stream)), Items: []rpcrdma2.ResultItem{d}}}, Count: 1, PayloadLength: uint32(len(stream))}
		h := Header{}
		h.XID, h.Version, h.Credits, h.Direction = xid, rpcrdma2.Version, 10, rpcrdma2.Call
		new(transmission.Group).Head(&h.Header, &req)
		acts := r.Arrived(in.Arrive(xid, append(h.Append(nil), stream...), Invalidation{}), nil)
		if len(d.Segments) > 0 {
			if s := find[Send](acts); s == nil || s.Call.Answer.Header.Err != rpcrdma2.ErrBadHeader {
				t.Errorf("%+v: %v", d, acts)
			} else {
				r.Sent(s.Call)
			}
			continue
		}
		a := find[Deliver](acts)
		if a == nil {
			t.Fatalf("%+v: %v", d, acts)
		}
		s := find[Send](r.Reply(a.Call, 28, []chunk.Item{{Pos: 28, Len: 2000}}, nil))
		var resp rpcrdma2.XmtResp
		if err := resp.Decode(s.Call.Answer.Header.Info); err != nil || len(resp.Items) != 1 || resp.Items[0].Place != rpcrdma2.TooShort {
			t.Errorf("%+v: answered %+v, %v", d, resp, err)
		}
		r.Sent(a.Call)
	}
}

// TestPlacedOffences: an item where none can be is told with XMTERR, other
// nonsense with BAD_HEADER; the connection goes on.
func TestPlacedOffences(t *testing.T) {
	r := placingResponder(t)
	xid := uint32(1)
	for name, tc := range map[string]struct {
		change func(*rpcrdma2.XmtReq)
		want   rpcrdma2.XmtError // Code 0: BAD_HEADER
	}{
		"offset":                 {func(q *rpcrdma2.XmtReq) { q.Items[0].Offset = 4096 }, rpcrdma2.XmtError{Code: rpcrdma2.BadOffset, Actual: 4096, Max: 4092}},
		"offset not aligned":     {func(q *rpcrdma2.XmtReq) { q.Items[0].Offset = 2 }, rpcrdma2.XmtError{Code: rpcrdma2.BadOffset, Actual: 2, Max: 4092}},
		"no such segment":        {func(q *rpcrdma2.XmtReq) { q.Items[0].Targets[1] = 4 }, rpcrdma2.XmtError{Code: rpcrdma2.BadTarget, Actual: 4, Max: 3, Bad: rpcrdma2.Transmission{Number: 1}}},
		"the same twice":         {func(q *rpcrdma2.XmtReq) { q.Items[0].Targets[1] = 0 }, rpcrdma2.XmtError{Code: rpcrdma2.BadTarget, Max: 3}},
		"one that did not come":  {func(q *rpcrdma2.XmtReq) { q.Items[0].Targets[1] = 3 }, rpcrdma2.XmtError{Code: rpcrdma2.BadTarget, Actual: 3, Max: 3, Bad: rpcrdma2.Transmission{Number: 1}}},
		"too long":               {func(q *rpcrdma2.XmtReq) { q.Items[0].Length = 1 << 31 }, rpcrdma2.XmtError{Code: rpcrdma2.BadTarget, Actual: 2, Max: 3, Bad: rpcrdma2.Transmission{Number: 1}}},
		"no segment":             {func(q *rpcrdma2.XmtReq) { q.Items[0].Targets = nil }, rpcrdma2.XmtError{Code: rpcrdma2.BadTarget, Max: 3, Bad: rpcrdma2.Transmission{Number: 1}}},
		"payload":                {func(q *rpcrdma2.XmtReq) { q.PayloadLength = 9216 }, rpcrdma2.XmtError{Code: rpcrdma2.BadPayload, Actual: 9216, Max: 9216 - 100}},
		"payload on the item":    {func(q *rpcrdma2.XmtReq) { q.PayloadLength = 1000 }, rpcrdma2.XmtError{Code: rpcrdma2.BadTarget, Max: 3}},
		"first of the arguments": {func(q *rpcrdma2.XmtReq) { q.Items[0].Disp = 40; q.Items[0].Offset = 2 }, rpcrdma2.XmtError{Code: rpcrdma2.BadOffset, Actual: 2, Max: 4092}},
		"position":               {func(q *rpcrdma2.XmtReq) { q.Items[0].Disp = 46 }, rpcrdma2.XmtError{}},
		"far position":           {func(q *rpcrdma2.XmtReq) { q.Items[0].Disp = 1 << 30 }, rpcrdma2.XmtError{}},
		"in the RPC header":      {func(q *rpcrdma2.XmtReq) { q.Items[0].Disp = 8 }, rpcrdma2.XmtError{}},
		"behind the end":         {func(q *rpcrdma2.XmtReq) { q.Items[0].Disp = 52 }, rpcrdma2.XmtError{}},
		"within another": {func(q *rpcrdma2.XmtReq) {
			q.Items = append(q.Items, rpcrdma2.Item{Disp: 48, Length: 4, Place: rpcrdma2.TargetBuffer, Targets: []uint32{3}})
		}, rpcrdma2.XmtError{}},
		"a read one not on a word": {func(q *rpcrdma2.XmtReq) {
			*q = rpcrdma2.XmtReq{Items: []rpcrdma2.Item{{Disp: 42, Length: 4, Place: rpcrdma2.ExplicitRDMA, Segments: []rpcrdma2.Segment{{Length: 4}}}}, Count: q.Count, PayloadLength: q.PayloadLength}
		}, rpcrdma2.XmtError{}},
		"no bytes":         {func(q *rpcrdma2.XmtReq) { q.Items[0].Length = 0 }, rpcrdma2.XmtError{}},
		"too short to be":  {func(q *rpcrdma2.XmtReq) { q.Items[0].Place = rpcrdma2.TooShort }, rpcrdma2.XmtError{}},
		"no item":          {func(q *rpcrdma2.XmtReq) { q.Items[0].Place = rpcrdma2.NoItem }, rpcrdma2.XmtError{}},
		"two at one place": {func(q *rpcrdma2.XmtReq) { q.Items = append(q.Items, q.Items[0]) }, rpcrdma2.XmtError{}},
		"ranges out of order": {func(q *rpcrdma2.XmtReq) {
			q.Results = []rpcrdma2.ResultSet{{Begin: 40, End: 60}, {Begin: 50, End: 70}}
		}, rpcrdma2.XmtError{}},
	} {
		xid++
		var c oneItem
		c.lay(t, xid, 12000, tc.change)
		refused := find[Send](c.receive(r))
		if refused == nil {
			t.Fatalf("%s: no answer", name)
		}
		h := refused.Call.Answer.Header
		var got rpcrdma2.XmtError
		switch {
		case tc.want.Code == 0:
			if h.Proc != rpcrdma2.Error || h.Err != rpcrdma2.ErrBadHeader {
				t.Errorf("%s: %s", name, formatHeader(h))
			}
		case h.Proc != rpcrdma2.Optional || h.Option != rpcrdma2.OptXmtError || got.Decode(h.Info) != nil:
			t.Errorf("%s: %s", name, formatHeader(h))
		default:
			tc.want.Bad.XID = xid
			if got.HasLead = false; got.Code == rpcrdma2.BadPayload {
				tc.want.Max = uint32(len(c.sends[0]) - rpcrdma2.OptionalSize(c.req.Size()))
			}
			got.Lead = rpcrdma2.Transmission{}
			if got != tc.want {
				t.Errorf("%s: %+v, want %+v", name, got, tc.want)
			}
		}
		r.Sent(refused.Call)
		c = oneItem{}
		c.lay(t, xid+1000, 12000, nil)
		a := find[Deliver](c.receive(r))
		if a == nil {
			t.Fatalf("%s: nothing is taken afterwards", name)
		}
		for _, a := range r.Reply(a.Call, oncrpc.AcceptedReplySize, nil, nil) {
			if a, is := a.(Send); is {
				r.Sent(a.Call)
			}
		}
	}
	if r.Busy() != 0 {
		t.Errorf("%d calls in progress", r.Busy())
	}
}

// TestNothingWasTold: of receives whose structure was never told nothing is
// found.
func TestNothingWasTold(t *testing.T) {
	s := placingSettings()
	s.Extensions &^= settings.ExtSendDDP
	r := NewResponder(ResponderConfig{PeerReceive: placedReceive, ToldSend: placedReceive, MaxTransfer: 1 << 20, MaxReceives: 100, Receive: placedReceive, Settings: s})
	postCalls(r, r.Start(nil))
	var c oneItem
	c.lay(t, 5, 4096, nil)
	if a := find[Send](c.receive(r)); a == nil || a.Call.Answer.Header.Option != rpcrdma2.OptXmtError {
		t.Error("not refused")
	}
	r.SetSettings(placingSettings(), nil)
	c.lay(t, 6, 4096, nil)
	if find[Deliver](c.receive(r)) == nil {
		t.Error("not taken once it is on")
	}
	r.SetSettings(s, nil) // some may be on their way
	c.lay(t, 7, 4096, nil)
	if find[Deliver](c.receive(r)) == nil {
		t.Error("not taken after it was turned off")
	}
}

// TestDirections: a responder answers each direction as the table of rtrext §7.4
// has it.
func TestDirections(t *testing.T) {
	segs := []rpcrdma2.Segment{{Handle: 9, Length: 6000, Offset: 100}}
	for name, tc := range map[string]struct {
		d     rpcrdma2.ResultItem
		items []int
		spare uint32
		want  rpcrdma2.Placement
		off   bool // send_ddp
	}{
		"EXRW":                             {d: rpcrdma2.ResultItem{Place: rpcrdma2.ExplicitRDMA, Segments: segs}, items: []int{5000}, want: rpcrdma2.ExplicitRDMA},
		"EXRW, shorter than the least":     {d: rpcrdma2.ResultItem{MinLength: 5001, Place: rpcrdma2.ExplicitRDMA, Segments: segs}, items: []int{5000}, want: rpcrdma2.TooShort},
		"EXRW, no such result":             {d: rpcrdma2.ResultItem{Place: rpcrdma2.ExplicitRDMA, Segments: segs}, want: rpcrdma2.NoItem},
		"EXRW, too little memory":          {d: rpcrdma2.ResultItem{Place: rpcrdma2.ExplicitRDMA, Segments: segs}, items: []int{6001}, want: rpcrdma2.TooShort},
		"TBSN":                             {d: rpcrdma2.ResultItem{Place: rpcrdma2.TargetBuffer}, items: []int{8192}, want: rpcrdma2.TargetBuffer},
		"TBSN, shorter than the least":     {d: rpcrdma2.ResultItem{MinLength: 8, Place: rpcrdma2.TargetBuffer}, items: []int{7}, want: rpcrdma2.TooShort},
		"TBSN, no such result":             {d: rpcrdma2.ResultItem{Place: rpcrdma2.TargetBuffer}, want: rpcrdma2.NoItem},
		"TBSN, more receives":              {d: rpcrdma2.ResultItem{Place: rpcrdma2.TargetBuffer}, items: []int{8193}, spare: 1, want: rpcrdma2.TargetBuffer},
		"TBSN, no target segments left":    {d: rpcrdma2.ResultItem{Place: rpcrdma2.TargetBuffer}, items: []int{8193}, want: rpcrdma2.TooShort},
		"TBSN, off":                        {d: rpcrdma2.ResultItem{Place: rpcrdma2.TargetBuffer}, items: []int{4096}, want: rpcrdma2.TooShort, off: true},
		"CHOICE":                           {d: rpcrdma2.ResultItem{Place: rpcrdma2.Choice, Segments: segs}, items: []int{5000}, want: rpcrdma2.TargetBuffer},
		"CHOICE, no target segments":       {d: rpcrdma2.ResultItem{Place: rpcrdma2.Choice, Segments: segs}, items: []int{5000}, want: rpcrdma2.ExplicitRDMA, off: true},
		"CHOICE, shorter than the least":   {d: rpcrdma2.ResultItem{MinLength: 5001, Place: rpcrdma2.Choice, Segments: segs}, items: []int{5000}, want: rpcrdma2.TooShort},
		"CHOICE, no such result":           {d: rpcrdma2.ResultItem{Place: rpcrdma2.Choice, Segments: segs}, want: rpcrdma2.NoItem},
		"BYSIZE, as long":                  {d: rpcrdma2.ResultItem{Place: rpcrdma2.BySize, Threshold: 5000, Segments: segs}, items: []int{5000}, want: rpcrdma2.ExplicitRDMA},
		"BYSIZE, shorter":                  {d: rpcrdma2.ResultItem{Place: rpcrdma2.BySize, Threshold: 5000, Segments: segs}, items: []int{4999}, want: rpcrdma2.TargetBuffer},
		"BYSIZE, shorter than the least":   {d: rpcrdma2.ResultItem{MinLength: 100, Place: rpcrdma2.BySize, Threshold: 5000, Segments: segs}, items: []int{99}, want: rpcrdma2.TooShort},
		"BYSIZE, no such result":           {d: rpcrdma2.ResultItem{Place: rpcrdma2.BySize, Threshold: 5000, Segments: segs}, want: rpcrdma2.NoItem},
		"BYSIZE, shorter, no targets":      {d: rpcrdma2.ResultItem{Place: rpcrdma2.BySize, Threshold: 5000, Segments: segs}, items: []int{4999}, want: rpcrdma2.TooShort, off: true},
		"BYSIZE, as long, too little room": {d: rpcrdma2.ResultItem{Place: rpcrdma2.BySize, Threshold: 5000, Segments: segs}, items: []int{6001}, want: rpcrdma2.TooShort},
	} {
		r := placingResponder(t)
		if tc.off {
			r.chars.Told.Buffer = rpcrdma2.Buffer{}
		}
		var c oneItem
		c.lay(t, 5, 4096, func(q *rpcrdma2.XmtReq) {
			q.Results, q.ReceiveBuffers = []rpcrdma2.ResultSet{{End: 4200, Items: []rpcrdma2.ResultItem{tc.d}}}, tc.spare
		})
		a := find[Deliver](c.receive(r))
		if a == nil {
			t.Fatalf("%s: not delivered", name)
		}
		var items []chunk.Item
		for _, n := range tc.items {
			items = append(items, chunk.Item{Pos: oncrpc.AcceptedReplySize + 4, Len: n})
		}
		sent := find[Send](r.Reply(a.Call, oncrpc.AcceptedReplySize+4, items, nil))
		if sent == nil {
			t.Fatalf("%s: no answer", name)
		}
		ans := &sent.Call.Answer
		var resp rpcrdma2.XmtResp
		if ans.Header.Option != rpcrdma2.OptXmtResp || resp.Decode(ans.Header.Info) != nil || len(resp.Items) != 1 {
			t.Fatalf("%s: %s", name, formatHeader(ans.Header))
		}
		it := &resp.Items[0]
		writes := 0
		if tc.want == rpcrdma2.ExplicitRDMA {
			writes = 1
		}
		if it.Place != tc.want || len(ans.Writes) != writes || int(resp.Count) != 1+len(ans.More) {
			t.Errorf("%s: placed as %d with %d RDMA Writes, %d transmissions", name, it.Place, len(ans.Writes), resp.Count)
		}
		if err := placement.CheckAnswer(&tc.d, it); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInterruptedWhileDraining: a call that is never whole is the last one to be
// answered, and nothing is asked for after the end.
func TestInterruptedWhileDraining(t *testing.T) {
	r := placingResponder(t)
	var c oneItem
	c.lay(t, 5, 12000, nil)
	r.Receive(0, c.sends[0], nil)
	r.Drain(nil)
	acts := r.Receive(1, c.sends[0], nil)
	if n := len(acts); n == 0 || acts[n-1] != Action(Disconnect{}) || find[Send](acts) == nil {
		t.Errorf("%+v", acts)
	}
	if acts = r.Receive(2, c.sends[0], nil); len(acts) > 0 {
		t.Errorf("after the end: %+v", acts)
	}
}

// TestPlacedInHeader: no item is in the RPC header, however long that is.
func TestPlacedInHeader(t *testing.T) {
	for disp, refused := range map[uint32]bool{44: true, 48: false} {
		r := placingResponder(t)
		payload := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 50, Program: 1, Version: 1, Cred: oncrpc.Auth{Body: make([]byte, 8)}})
		req := rpcrdma2.XmtReq{Count: 1, PayloadLength: uint32(len(payload)), Items: []rpcrdma2.Item{
			{Disp: disp, Length: 100, Place: rpcrdma2.TargetBuffer, Targets: []uint32{0}},
		}}
		body := make([]byte, 1024+100-rpcrdma2.OptionalSize(req.Size()))
		copy(body, payload)
		acts := r.Receive(1, optionMessage(50, rpcrdma2.Call, &req, body), nil)
		send, deliver := find[Send](acts), find[Deliver](acts)
		if (send != nil && send.Call.Answer.Header.Err == rpcrdma2.ErrBadHeader) != refused || (deliver != nil) == refused {
			t.Errorf("item at %d: %v", disp, acts)
		}
	}
}
