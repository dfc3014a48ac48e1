package conn

import (
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// answeredBy gives the header that answers a message, and gives everything back.
func answeredBy(t *testing.T, r *Responder, msg []byte) *Header {
	t.Helper()
	var h *Header
	for _, a := range r.Receive(1, msg, nil) {
		switch a := a.(type) {
		case Send:
			h = a.Call.Answer.Header
			r.Sent(a.Call)
		case PostReceives:
			r.Posted(a.N, a.N)
		case Deliver, Fetch, Fail:
			t.Fatalf("%T: %+v", a, a)
		}
	}
	if r.Busy() != 0 {
		t.Fatalf("%d calls held", r.Busy())
	}
	return h
}

// TestTransmissionsOff: with the extension off they are unknown operations; a
// peer of a connection that had it on finds that it is still taken.
func TestTransmissionsOff(t *testing.T) {
	off := settings.Default()
	off.Extensions |= settings.ExtV2
	on := continuing()
	for _, body := range []rpcrdma2.Body{&rpcrdma2.XmtReq{Count: 1}, &rpcrdma2.XmtCont{Number: 1}, &rpcrdma2.XmtError{Code: rpcrdma2.BadContinuation}} {
		p := newPair(t, off, off)
		h := answeredBy(t, p.s, optionMessage(50, rpcrdma2.Call, body, nil))
		if h == nil || h.Proc != rpcrdma2.Error || h.Err != rpcrdma2.ErrInvalOption {
			t.Errorf("operation %d: %+v", body.Type(), h)
		}
	}
	p := newPair(t, on, on)
	p.server(p.s.SetSettings(&off, nil))
	h := answeredBy(t, p.s, optionMessage(50, rpcrdma2.Call, &rpcrdma2.XmtCont{Number: 1}, nil))
	if h == nil || h.Proc != rpcrdma2.Optional || h.Option != rpcrdma2.OptXmtError {
		t.Errorf("turned off: %+v", h)
	}
}

// TestBadGroups: what makes no sense in itself is a bad header.
func TestBadGroups(t *testing.T) {
	segments := []rpcrdma1.Segment{{Handle: 1, Length: 100, Offset: 1}}
	direction := rpcrdma2.ResultItem{Place: rpcrdma2.ExplicitRDMA, Segments: segments}
	for name, req := range map[string]*rpcrdma2.XmtReq{
		"no transmissions":            {},
		"more than the limit":         {Count: transmission.Limit + 1},
		"the message as an item":      {Count: 1, Items: []rpcrdma2.Item{{Length: 100, Place: rpcrdma2.ExplicitRDMA, Segments: segments}}},
		"longer than its segments":    {Count: 1, Items: []rpcrdma2.Item{{Disp: 40, Length: 101, Place: rpcrdma2.ExplicitRDMA, Segments: segments}}},
		"an item that wraps":          {Count: 1, Items: []rpcrdma2.Item{{Disp: 40, Length: 1, Place: rpcrdma2.ExplicitRDMA, Segments: []rpcrdma1.Segment{{Length: 10, Offset: ^uint64(0)}}}}},
		"an item that is an outcome":  {Count: 1, Items: []rpcrdma2.Item{{Disp: 40, Length: 1, Place: rpcrdma2.TooShort}}},
		"an item beyond the stream":   {Count: 1, Items: []rpcrdma2.Item{{Disp: 400, Length: 100, Place: rpcrdma2.ExplicitRDMA, Segments: segments}}},
		"ranges that overlap":         {Count: 1, Results: []rpcrdma2.ResultSet{{End: 20}, {Begin: 10, End: 30}}},
		"a range that is turned":      {Count: 1, Results: []rpcrdma2.ResultSet{{Begin: 10, End: 5}}},
		"a segment that wraps":        {Count: 1, HasReply: true, Reply: []rpcrdma1.Segment{{Length: 10, Offset: ^uint64(0)}}},
		"more directions than chunks": {Count: 1, Results: []rpcrdma2.ResultSet{{Items: directions(direction, 16)}, {Items: directions(direction, 1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := agreedPair(t)
			payload := rpcCallOf(50)
			req.PayloadLength = uint32(len(payload))
			posted := p.s.grants.Posted()
			h := answeredBy(t, p.s, optionMessage(50, rpcrdma2.Call, req, payload))
			if h == nil || h.Proc != rpcrdma2.Error || h.Err != rpcrdma2.ErrBadHeader {
				t.Errorf("%+v", h)
			}
			if p.s.grants.Posted() != posted || len(p.s.xids) != 0 {
				t.Errorf("%d receives, %d before", p.s.grants.Posted(), posted)
			}
		})
	}
}

// TestLongerSegments: an item has the length that it says, however long its segments are.
func TestLongerSegments(t *testing.T) {
	p := agreedPair(t)
	payload := append(rpcCallOf(50), 0, 0, 0, 9)
	req := rpcrdma2.XmtReq{Count: 1, PayloadLength: uint32(len(payload)), Items: []rpcrdma2.Item{{
		Disp: uint32(len(payload)), Length: 9, Place: rpcrdma2.ExplicitRDMA,
		Segments: []rpcrdma1.Segment{{Handle: 1, Length: 4, Offset: 100}, {Handle: 2, Length: 8, Offset: 200}, {Handle: 3, Length: 8, Offset: 300}},
	}}}
	fetch := find[Fetch](p.s.Receive(1, optionMessage(50, rpcrdma2.Call, &req, payload), nil))
	if fetch == nil {
		t.Fatal("not taken")
	}
	want := []chunk.Read{{Length: 4, RKey: 1, Addr: 100}, {Off: 4, Length: 5, RKey: 2, Addr: 200}}
	if c := fetch.Call; !slices.Equal(c.Fetches, want) || c.Reads.Chunks[0].Length != 9 {
		t.Errorf("reads %+v for %d bytes", c.Fetches, c.Reads.Chunks[0].Length)
	}
	deliver := find[Deliver](p.s.Fetched(fetch.Call, [][]byte{make([]byte, 9)}, nil))
	if deliver == nil || len(deliver.Call.RPC.Args.Items) != 1 || deliver.Call.RPC.Args.Items[0].Len() != 9 {
		t.Errorf("delivers %+v", deliver)
	}
}

func directions(d rpcrdma2.ResultItem, n int) (all []rpcrdma2.ResultItem) {
	for range n {
		all = append(all, d)
	}
	return all
}

// TestReadSegmentsOfBothForms: a message names as many segments to read in the
// items of an XMTREQ as in a read list, all items together.
func TestReadSegmentsOfBothForms(t *testing.T) {
	s := settings.Default()
	s.Extensions |= settings.ExtV2 | settings.ExtXmit
	s.InlineReceiveSize = 65536
	call := append(rpcCallOf(50), make([]byte, 16)...)
	at := uint32(len(call) - 16)
	for _, n := range []int{rpcrdma1.MaxReadSegments, rpcrdma1.MaxReadSegments + 1} {
		list := rpcrdma2.Header{Header: rpcrdma1.Header{XID: 50, Version: 2, Credits: 1}}
		items := []rpcrdma2.Item{{Disp: at, Place: rpcrdma2.ExplicitRDMA}, {Place: rpcrdma2.ExplicitRDMA}}
		for i := range n {
			it := &items[2*i/n]
			if it.Disp == 0 {
				it.Disp = at + items[0].Length + 4
			}
			segment := rpcrdma1.Segment{Handle: 1, Length: 4}
			it.Segments, it.Length = append(it.Segments, segment), it.Length+4
			list.Reads = append(list.Reads, rpcrdma1.ReadSegment{Position: it.Disp, Segment: segment})
		}
		for form, msg := range map[string][]byte{
			"list":  append(list.Append(nil), call...),
			"items": optionMessage(50, rpcrdma2.Call, &rpcrdma2.XmtReq{Items: items, Count: 1, PayloadLength: uint32(len(call))}, call),
		} {
			r := NewResponder(ResponderConfig{PeerReceive: 65536, ToldSend: 65536, MaxTransfer: 1 << 20, MaxReceives: 100, Receive: 65536, Settings: &s})
			postCalls(r, r.Start(nil))
			acts := r.Receive(1, msg, nil)
			fetch, send := find[Fetch](acts), find[Send](acts)
			if good := n == rpcrdma1.MaxReadSegments; (fetch != nil) != good || (fetch != nil && len(fetch.Call.Fetches) != n) {
				t.Errorf("%d segments in the %s: fetched %v", n, form, fetch != nil)
			} else if !good && (send == nil || send.Call.Answer.Header.Err != rpcrdma2.ErrBadHeader) {
				t.Errorf("%d segments in the %s: no BAD_HEADER", n, form)
			}
		}
	}
}

// TestCopyOfGroup: a call in transmissions with the XID of a call in progress is not carried out.
// It gets an error right after the answer to that call, and its receives come back.
func TestCopyOfGroup(t *testing.T) {
	p := agreedPair(t)
	posted := p.s.grants.Posted()
	call := rpcCallOf(50)
	first := find[Deliver](p.s.Receive(1, plainMessage(50, rpcrdma2.Call, call), nil))
	for _, msg := range [][]byte{
		optionMessage(50, rpcrdma2.Call, &rpcrdma2.XmtReq{Count: 2, PayloadLength: 20}, call[:20]),
		optionMessage(50, rpcrdma2.Call, &rpcrdma2.XmtCont{Number: 1, Initial: rpcrdma2.OptXmtReq, PayloadLength: 20}, call[20:]),
	} {
		if acts := p.s.Receive(2, msg, nil); find[Deliver](acts) != nil || find[Send](acts) != nil {
			t.Fatalf("%v", acts)
		}
	}
	if p.s.Counters.Duplicates != 1 || p.s.Busy() != 3 {
		t.Errorf("%d copies, %d calls held", p.s.Counters.Duplicates, p.s.Busy())
	}
	var sent []rpcrdma1.Proc
	for _, a := range p.s.Reply(first.Call, 24, nil, nil) {
		if a, is := a.(Send); is {
			sent = append(sent, a.Call.Answer.Header.Proc)
			p.s.Sent(a.Call)
		}
	}
	if !slices.Equal(sent, []rpcrdma1.Proc{rpcrdma2.Msg, rpcrdma2.Error}) || p.s.Busy() != 0 || p.s.grants.Posted() != posted {
		t.Errorf("sends %v, holds %d, %d receives, %d before", sent, p.s.Busy(), p.s.grants.Posted(), posted)
	}
}
