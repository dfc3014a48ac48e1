package rpcrdma_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// teller is a liar of version 2 that told that it takes and makes groups of up
// to eight transmissions.
type teller struct{ *liar }

func newTeller(t testing.TB, p rdmacm.Provider, extensions rpcrdma.Extensions) *teller {
	t.Helper()
	s := rpcrdma.DefaultSettings()
	speakingWith(extensions)(&s)
	l := &teller{newLiar(t, p, kernelPrivateData, &s)}
	l.greet()
	return l
}

// greet answers what the client says of itself.
func (l *teller) greet() {
	l.t.Helper()
	h, _, _ := l.next()
	v := rpcrdma2.DefaultValues()
	v.RTR = rpcrdma2.RTRRequest | rpcrdma2.RTRResponse | rpcrdma2.RTRContinue
	v.RequestReceive, v.ResponseSend = 8, 8
	start := rpcrdma2.Set{v.Encode(rpcrdma2.CharRTR), v.Encode(rpcrdma2.CharRequestReceive), v.Encode(rpcrdma2.CharResponseSend)}
	if h.Option != rpcrdma2.OptInit {
		l.t.Fatalf("the client begins with %+v", h)
	}
	l.post(optional(h.XID, rpcrdma2.Reply, &rpcrdma2.Init{Start: start}, nil))
	l.ok(l.honestly()) // the client knows it all when this returns
}

// next gives the next message of the client, with what a call of more than one
// transmission says of itself; all of the message is in body.
func (l *teller) next() (h rpcrdma2.Header, req rpcrdma2.XmtReq, body []byte) {
	l.t.Helper()
	body = l.take(&h)
	if h.Proc != rpcrdma2.Optional || h.Option != rpcrdma2.OptXmtReq {
		return h, req, body
	}
	l.ok(req.Decode(h.Info))
	body = bytes.Clone(body)
	for range req.Count - 1 {
		body = append(body, l.take(&h)...)
	}
	return h, req, body
}

// groupReply are the transmissions of a reply: the first has n bytes of it.
func groupReply(xid uint32, items []rpcrdma2.Item, msg []byte, n int) [][]byte {
	first := rpcrdma2.XmtResp{Items: items, Count: 1, PayloadLength: uint32(min(n, len(msg)))}
	rest := msg[first.PayloadLength:]
	if len(rest) > 0 {
		first.Count = 2
	}
	group := [][]byte{optional(xid, rpcrdma2.Reply, &first, msg[:first.PayloadLength])}
	if len(rest) > 0 {
		group = append(group, continuingReply(xid, 1, rest))
	}
	return group
}

func continuingReply(xid, number uint32, part []byte) []byte {
	return optional(xid, rpcrdma2.Reply, &rpcrdma2.XmtCont{Number: number, Initial: rpcrdma2.OptXmtResp, PayloadLength: uint32(len(part))}, part)
}

// groupLie answers a call wrongly; msg is what would be right.
type groupLie struct {
	name      string
	answer    func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte
	complaint rpcrdma2.XmtErrCode // of the client; 0 is none
}

// groupLies are told of a call with one direction.
var groupLies = []groupLie{
	{"no transmissions", func(xid uint32, _ *rpcrdma2.XmtReq, msg []byte) [][]byte {
		return [][]byte{optional(xid, rpcrdma2.Reply, &rpcrdma2.XmtResp{PayloadLength: uint32(len(msg))}, msg)}
	}, 0},
	{"more transmissions than receives", func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		return [][]byte{optional(xid, rpcrdma2.Reply, &rpcrdma2.XmtResp{Items: written(req, 0), Count: req.ReceiveBuffers + 2, PayloadLength: uint32(len(msg))}, msg)}
	}, 0},
	{"a payload that is not there", func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		return [][]byte{optional(xid, rpcrdma2.Reply, &rpcrdma2.XmtResp{Items: written(req, 0), Count: 1, PayloadLength: uint32(len(msg) + 1)}, msg)}
	}, rpcrdma2.BadPayload},
	{"a number left out", func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		return [][]byte{groupReply(xid, written(req, 0), msg, 24)[0], continuingReply(xid, 2, msg[24:])}
	}, rpcrdma2.BadSequence},
	{"another XID", func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		return [][]byte{groupReply(xid, written(req, 0), msg, 24)[0], continuingReply(xid+9, 1, msg[24:])}
	}, rpcrdma2.BadXID},
	{"a part of a call", func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		return [][]byte{groupReply(xid, written(req, 0), msg, 24)[0], optional(xid, rpcrdma2.Reply, &rpcrdma2.XmtCont{Number: 1, Initial: rpcrdma2.OptXmtReq}, nil)}
	}, rpcrdma2.BadOptType},
	{"begun twice", func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		return [][]byte{groupReply(xid, written(req, 0), msg, 24)[0], groupReply(xid, written(req, 0), msg, 24)[0]}
	}, rpcrdma2.BadOptType},
	{"an XMTERR of no code", func(xid uint32, _ *rpcrdma2.XmtReq, _ []byte) [][]byte {
		return [][]byte{optional(xid, rpcrdma2.Reply, &rpcrdma2.XmtError{Code: 99}, nil)}
	}, 0},
	{"no outcome of a direction", groupLieOf(func(_ *rpcrdma2.XmtReq, it *rpcrdma2.XmtResp) { it.Items = nil }), 0},
	{"one outcome more", groupLieOf(func(_ *rpcrdma2.XmtReq, r *rpcrdma2.XmtResp) { r.Items = append(r.Items, r.Items[0]) }), 0},
	{"an item in the client's buffers", groupLieOf(func(_ *rpcrdma2.XmtReq, r *rpcrdma2.XmtResp) {
		r.Items[0] = rpcrdma2.Item{Length: 4, Place: rpcrdma2.TargetBuffer, Targets: []uint32{0}}
	}), 0},
	{"more than was offered", groupLieOf(func(q *rpcrdma2.XmtReq, r *rpcrdma2.XmtResp) {
		r.Items[0].Length, r.Items[0].Segments[0].Length = 9005, 9005
	}), 0},
	{"four gigabytes", groupLieOf(func(q *rpcrdma2.XmtReq, r *rpcrdma2.XmtResp) { r.Items[0].Length = 1<<32 - 1 }), 0},
	{"another place", groupLieOf(func(q *rpcrdma2.XmtReq, r *rpcrdma2.XmtResp) { r.Items[0].Segments[0].Offset++ }), 0},
	{"under another STag", groupLieOf(func(q *rpcrdma2.XmtReq, r *rpcrdma2.XmtResp) { r.Items[0].Segments[0].Handle++ }), 0},
	{"without segments", groupLieOf(func(q *rpcrdma2.XmtReq, r *rpcrdma2.XmtResp) { r.Items[0].Segments = nil }), 0},
	{"cut short", func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		return groupReply(xid, written(req, 0), msg[:12], 2000)
	}, 0},
	{"another call's", func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		msg[3]++
		return groupReply(xid, written(req, 0), msg, 2000)
	}, 0},
}

// written is the outcome of a call's direction: n bytes were written.
func written(req *rpcrdma2.XmtReq, n uint32) []rpcrdma2.Item {
	segs := bytesWritten(req.Results[0].Items[0].Segments, n)
	return []rpcrdma2.Item{{Length: n, Place: rpcrdma2.ExplicitRDMA, Segments: segs}}
}

func bytesWritten(segs []rpcrdma2.Segment, n uint32) (out []rpcrdma2.Segment) {
	for _, s := range segs {
		s.Length = min(s.Length, n)
		n -= s.Length
		out = append(out, s)
	}
	return out
}

// groupLieOf changes the head of an answer that says that enough was written.
func groupLieOf(change func(*rpcrdma2.XmtReq, *rpcrdma2.XmtResp)) func(uint32, *rpcrdma2.XmtReq, []byte) [][]byte {
	return func(xid uint32, req *rpcrdma2.XmtReq, msg []byte) [][]byte {
		r := rpcrdma2.XmtResp{Items: written(req, 9000), Count: 1, PayloadLength: uint32(len(msg))}
		change(req, &r)
		return [][]byte{optional(xid, rpcrdma2.Reply, &r, msg)}
	}
}

// TestGroupLies: a group that does not answer its call fails that call, and the
// client shows none of it. The server is told where the group itself is wrong,
// and the connection goes on with all its credits.
func TestGroupLies(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		l := newTeller(t, p, continuation)
		for _, lie := range groupLies {
			call := newCall(procRead)
			call.MaxReply = 8000 // so that the reply goes in transmissions
			call.Results = []rpcrdma.Result{{Buf: make(heapBuffer, 9004), Max: 9001}}
			failed := begin(func() error { return l.c.Call(l.ctx, &call) })
			h, req, _ := l.next()
			if h.Option != rpcrdma2.OptXmtReq || req.ReceiveBuffers == 0 || len(req.Results) != 1 {
				t.Fatalf("%s: the call is %+v, %+v", lie.name, h, req)
			}
			for _, msg := range lie.answer(h.XID, &req, append(oncrpc.AppendAcceptedReply(nil, h.XID), make([]byte, 200)...)) {
				l.post(msg)
			}
			if err := <-failed; !errors.Is(err, rpcrdma.ErrBadReply) || len(call.Reply) != 0 {
				t.Errorf("%s: %v, %d bytes", lie.name, err, len(call.Reply))
			}
			if lie.complaint != 0 {
				told, _, _ := l.next()
				var e rpcrdma2.XmtError
				if err := e.Decode(told.Info); err != nil || told.Option != rpcrdma2.OptXmtError || e.Code != lie.complaint || e.Bad.Direction != rpcrdma2.Reply {
					t.Errorf("%s: the client tells %+v, %+v, %v; want code %d", lie.name, told, e, err, lie.complaint)
				}
			}
			if err := l.honestly(); err != nil {
				t.Fatalf("after %s: %v", lie.name, err)
			}
		}
		if i := l.c.Info(); i.CreditsGranted != 32 {
			t.Errorf("%d credits in the end, want 32", i.CreditsGranted)
		}
	})
}

// honestly makes a call and answers it as it should be.
func (l *teller) honestly() error {
	l.t.Helper()
	call := newCall(procNull)
	answered := begin(func() error { return l.c.Call(l.ctx, &call) })
	h, _, _ := l.next()
	h.Direction, h.Credits = rpcrdma2.Reply, 32
	l.post(oncrpc.AppendAcceptedReply(h.Append(nil), h.XID))
	return <-answered
}

// TestRefusedGroup: a call whose group the server refuses with XMTERR goes out
// once more as one message with chunks; what answers that is final.
func TestRefusedGroup(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		l := newTeller(t, p, continuation)
		call := newCall(procEcho)
		call.Args = xdr.AppendOpaque(nil, make([]byte, 6000))
		call.MaxReply = 100
		answered := begin(func() error { return l.c.Call(l.ctx, &call) })
		h, req, body := l.next()
		if req.Count != 2 || len(body) != 40+6004 {
			t.Fatalf("%d transmissions of %d bytes", req.Count, len(body))
		}
		refusal := rpcrdma2.XmtError{Bad: rpcrdma2.Transmission{XID: h.XID}, Code: rpcrdma2.BadSequence, Expected: 1, Actual: 2}
		l.post(optional(h.XID, rpcrdma2.Reply, &refusal, nil))
		again, _, _ := l.next()
		if again.Proc != rpcrdma2.NoMsg || len(again.Reads) != 1 {
			t.Fatalf("after XMTERR: %+v", again)
		}
		refusal.Bad.XID = again.XID
		l.post(optional(again.XID, rpcrdma2.Reply, &refusal, nil)) // of what was no group: nothing
		h2 := rpcrdma2.Header{Header: rpcrdma1.Header{XID: again.XID, Version: 2, Credits: 32}, Direction: rpcrdma2.Reply}
		l.post(append(oncrpc.AppendAcceptedReply(h2.Append(nil), again.XID), 0, 0, 0, 0))
		if err := <-answered; err != nil || !bytes.Equal(call.Reply, []byte{0, 0, 0, 0}) {
			t.Errorf("%v, %x", err, call.Reply)
		}
		should(t, l.honestly())
	})
}

// TestForeignInvalidation: a transmission that invalidates memory which is not
// its call's ends the connection.
func TestForeignInvalidation(t *testing.T) {
	l := newTeller(t, providers[0].make(t), continuation)
	failed := make(chan error, 2)
	var calls [2]rpcrdma2.XmtReq
	var heads [2]rpcrdma2.Header
	for i := range calls {
		call := newCall(procRead)
		call.MaxReply = 8000
		call.Results = []rpcrdma.Result{{Buf: make(heapBuffer, 9004), Max: 9001}}
		go func() { failed <- l.c.Call(l.ctx, &call) }()
		heads[i], calls[i], _ = l.next()
	}
	msg := oncrpc.AppendAcceptedReply(nil, heads[0].XID)
	group := groupReply(heads[0].XID, written(&calls[0], 9000), append(msg, 0, 0, 0, 0), len(msg))
	l.post(group[0])
	n := copy(l.raw.send.Bytes(), group[1])
	_, err := l.qp.PostSend([]verbs.SendWR{{
		Op: verbs.OpSendInvalidate, InvalidateRKey: calls[1].Results[0].Items[0].Segments[0].Handle, SGL: []verbs.SGE{{MR: l.raw.send, Length: n}},
	}})
	l.ok(err)
	for range calls {
		if err := <-failed; !errors.Is(err, rpcrdma.ErrInvalidated) {
			t.Errorf("%v", err)
		}
	}
}

// FuzzGroupReplies: whatever a server of version 2 sends, calls return, no byte
// lies outside of the memory that they offered, and nothing is left.
func FuzzGroupReplies(f *testing.F) {
	const handle, xid = 1, 0 // what stands for the call's
	req := rpcrdma2.XmtReq{ReceiveBuffers: 1, Results: []rpcrdma2.ResultSet{{Items: []rpcrdma2.ResultItem{{
		Place: rpcrdma2.ExplicitRDMA, Segments: []rpcrdma2.Segment{{Handle: handle, Length: 9004}},
	}}}}}
	for _, lie := range groupLies {
		msg := append(oncrpc.AppendAcceptedReply(nil, xid), make([]byte, 200)...)
		f.Add(bytes.Join(lie.answer(xid, &req, msg), []byte{0xff, 0xff}))
	}
	fabrics := keep(f, newFuzzFabric)
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 4*rawSize {
			return
		}
		l := fabrics.take(t).teller(t)
		over := l.beginRead(t)
		h, offered, _ := l.next()
		segment := offered.Results[0].Items[0].Segments[0]
		for part := range bytes.SplitSeq(bytes.Clone(script), []byte{0xff, 0xff}) {
			for i := 0; i+4 <= len(part); i += 4 {
				switch word := part[i:]; {
				case i == 0 && binary.BigEndian.Uint32(word) == xid:
					binary.BigEndian.PutUint32(word, h.XID)
				case i+16 <= len(part) && binary.BigEndian.Uint32(word) == handle && binary.BigEndian.Uint64(word[8:]) == 0:
					binary.BigEndian.PutUint32(word, segment.Handle)
					binary.BigEndian.PutUint64(word[8:], segment.Offset)
				}
			}
			if l.qp.State() != verbs.QPRTS || len(part) > 4096 {
				break
			}
			l.post(part)
		}
		over()
	})
}
