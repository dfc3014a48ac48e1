package conn

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// longReplies has a requester make calls in transmissions with the XIDs, whose
// replies may take several.
func longReplies(t *testing.T, p *pair, xids ...uint32) (calls []*Outgoing) {
	t.Helper()
	for i, xid := range xids {
		o := &Outgoing{StreamLen: 40, MaxReply: 9000, Own: true, XID: xid, Tag: i}
		must(t, p.c.Plan(o))
		p.client(p.c.Prepare(o, nil))
		if now, err := p.c.Begin(o); !now || err != nil {
			t.Fatal(now, err)
		}
		if _, ok := p.c.Launch(o, nil); !ok || !o.transmitted {
			t.Fatal("not in transmissions")
		}
		calls = append(calls, o)
	}
	return calls
}

// clientEnd gives the pair's requester a responder beside it, for calls to the
// client.
func (p *pair) clientEnd() *Inbound {
	in := new(Inbound)
	in.Replies(p.c)
	in.Calls(NewResponder(ResponderConfig{MaxReceives: 100, Reverse: true, Receive: 4096, Settings: &p.settings[0]}), true)
	return in
}

// complaintsOf are the XMTERRs that a message to a client leads to, sent when
// all of its actions are known.
func complaintsOf(in *Inbound, msg []byte) (told []string) {
	n, r := 0, in.requester
	var acts []Action
	switch a := in.Arrive(1, msg, Invalidation{}); {
	case !a.Call:
		acts = r.Arrived(a, nil)
	case a.Interrupts:
		acts = r.Interrupted(a, nil)
	}
	for _, a := range acts {
		if is[Complain](a) {
			n++
		}
	}
	for range n {
		h := r.Complaint()
		told = append(told, fmt.Sprintf("xid=%d%s", h.XID, formatOption(&h)))
	}
	return told
}

// TestTwoComplaints: a message that interrupts a group and is wrong itself leads
// to two complaints, each of which is sent once.
func TestTwoComplaints(t *testing.T) {
	p := agreedPair(t)
	longReplies(t, p, 50, 60)
	first := optionMessage(50, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 3, PayloadLength: 8}, make([]byte, 8))
	second := optionMessage(60, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 1, PayloadLength: 9}, make([]byte, 8))
	in := p.clientEnd()
	told := slices.Concat(complaintsOf(in, first), complaintsOf(in, second))
	want := []string{
		"xid=50 XMTERR bad=60/reply/0 lead=50/reply/0 code=2 expected=7 actual=6",
		"xid=60 XMTERR bad=60/reply/0 code=8 value=9 range=0-8",
	}
	if !slices.Equal(told, want) || len(p.c.complaints) != 0 {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestInterrupters: whatever message comes before the end of a group, the XMTERR
// about that has the XID of the group, and its body names the message as it is.
func TestInterrupters(t *testing.T) {
	refusal := Header{rpcrdma2.Header{Header: rpcrdma1.Header{XID: 60, Version: 2, Proc: rpcrdma1.Error, Err: rpcrdma2.ErrBadHeader}}}
	for name, c := range map[string]struct {
		msg  []byte
		want string
	}{
		"another reply":            {plainMessage(60, rpcrdma2.Reply, oncrpc.AppendAcceptedReply(nil, 60)), "bad=60/reply/0 lead=50/reply/0 code=1 expected=5 actual=0"},
		"an error":                 {refusal.Append(nil), "bad=60/reply/0 lead=50/reply/0 code=1 expected=5 actual=4"},
		"a call of the server":     {plainMessage(7777, rpcrdma2.Call, rpcCallOf(7777)), "bad=7777/call/0 lead=50/reply/0 code=1 expected=5 actual=0"},
		"a call, the same XID":     {plainMessage(50, rpcrdma2.Call, rpcCallOf(50)), "bad=50/call/0 lead=50/reply/0 code=1 expected=5 actual=0"},
		"the rest of a long call":  {optionMessage(7777, rpcrdma2.Call, &rpcrdma2.XmtCont{Number: 2, Initial: 5}, nil), "bad=7777/call/2 lead=50/reply/0 code=5 expected=50 actual=7777"},
		"the same, with its XID":   {optionMessage(50, rpcrdma2.Call, &rpcrdma2.XmtCont{Number: 2, Initial: 5}, nil), "bad=50/call/2 lead=50/reply/0 code=3"},
		"the same reply once more": {optionMessage(50, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 3}, nil), "bad=50/reply/0 lead=50/reply/0 code=2 expected=7 actual=6"},
	} {
		t.Run(name, func(t *testing.T) {
			p := agreedPair(t)
			in := p.clientEnd()
			calls := longReplies(t, p, 50, 60)
			complaintsOf(in, optionMessage(50, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 3, PayloadLength: 8}, make([]byte, 8)))
			told := complaintsOf(in, c.msg)
			if want := []string{"xid=50 XMTERR " + c.want}; !slices.Equal(told, want) || !errors.Is(calls[0].Err, ErrBadReply) {
				t.Errorf("told %q, want %q; the call: %v", told, want, calls[0].Err)
			}
		})
	}
}

// TestInterruptedCall: a call whose group another message of the client's own
// interrupts is refused by its own XID, and is made again, whatever that was.
func TestInterruptedCall(t *testing.T) {
	p := agreedPair(t)
	var in Inbound
	in.Calls(p.s, true)
	in.Replies(NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 100, Reverse: true, Settings: &p.settings[1]}))
	o := longReplies(t, p, 50)[0]
	var refusal []byte
	for _, msg := range [][]byte{
		optionMessage(50, rpcrdma2.Call, &rpcrdma2.XmtReq{Count: 2, PayloadLength: 8}, make([]byte, 8)),
		plainMessage(4242, rpcrdma2.Reply, oncrpc.AppendAcceptedReply(nil, 4242)), // to a call of the server
	} {
		a := in.Arrive(1, msg, Invalidation{})
		take := p.s.Arrived
		if !a.Call {
			take = p.s.Interrupted
		}
		for _, a := range take(a, nil) {
			if a, is := a.(Send); is {
				h := a.Call.Answer.Header
				if text := formatOption(h); h.XID != 50 || text != " XMTERR bad=4242/reply/0 lead=50/call/0 code=1 expected=5 actual=0" {
					t.Errorf("xid %d%s", h.XID, text)
				}
				refusal = h.Append(nil)
			}
		}
	}
	p.c.Receive(1, refusal, Invalidation{}, nil)
	if !errors.Is(o.Err, ErrReplan) || !o.direct || p.c.Counters.GroupsRefused != 1 {
		t.Errorf("after %x: %v", refusal, o.Err)
	}
}
