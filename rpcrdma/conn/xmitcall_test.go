package conn

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// answeredBy gives the header that answers a message, and gives everything back.
func answeredBy(t *testing.T, r *Responder, msg []byte) *Header {
	t.Helper()
	var h *Header
	for _, a := range r.Receive(1, msg, nil) {
		switch a.Kind {
		case Send:
			h = a.Call.Answer.Header
			r.Sent(a.Call)
		case PostReceives:
			r.Posted(a.N, a.N)
		case Deliver, Fetch, Fail:
			t.Fatalf("action %d: %v", a.Kind, a.Err)
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
	off := DefaultSettings()
	off.Extensions |= ExtV2
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
		"more than the limit":         {Count: transmissionLimit + 1},
		"the message as an item":      {Count: 1, Items: []rpcrdma2.Item{{Length: 100, Place: rpcrdma2.ExplicitRDMA, Segments: segments}}},
		"segments of another length":  {Count: 1, Items: []rpcrdma2.Item{{Disp: 40, Length: 99, Place: rpcrdma2.ExplicitRDMA, Segments: segments}}},
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

func directions(d rpcrdma2.ResultItem, n int) (all []rpcrdma2.ResultItem) {
	for range n {
		all = append(all, d)
	}
	return all
}
