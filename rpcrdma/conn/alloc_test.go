package conn

import (
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// served takes one call through a responder, and gives back what it asks for.
func served(t testing.TB, r *Responder, msg []byte, acts []Action) []Action {
	acts = r.Receive(0, msg, acts[:0])
	for i := 0; i < len(acts); i++ {
		a := acts[i]
		switch a := a.(type) {
		case PostReceives:
			r.Posted(a.N, a.N)
		case Fetch:
			acts = r.Fetched(a.Call, fetchedMemory, acts)
		case Deliver:
			var items []chunk.Item
			if len(a.Call.header.Writes) > 0 {
				items = replyItems
			}
			acts = r.Reply(a.Call, 128, items, acts)
		case Send:
			if a.Call.Answer.Failed && a.Call.Answer.Header.Proc == rpcrdma2.Error {
				t.Fatal("error answer")
			}
			r.Sent(a.Call)
		case Fail:
			t.Fatal(a.Err)
		}
	}
	return acts
}

var (
	fetchedMemory = [][]byte{make([]byte, 4096)}
	replyItems    = []chunk.Item{{Pos: 128, Len: 8192}}
)

func callMessages() map[string][]byte {
	seg := rpcrdma1.Segment{Handle: 7, Length: 4096, Offset: 1 << 32}
	headers := map[string]rpcrdma1.Header{
		"inline":      {},
		"read chunk":  {Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: seg}}},
		"write chunk": {Writes: []rpcrdma1.WriteChunk{{seg, seg}}},
		"reply chunk": {HasReply: true, Reply: rpcrdma1.WriteChunk{seg}},
	}
	all := make(map[string][]byte)
	for name, h1 := range headers {
		for _, version := range []uint32{1, 2} {
			h := Header{rpcrdma2.Header{Header: h1}}
			h.XID, h.Version, h.Credits = 1, version, 32
			msg := append(oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: 1}), make([]byte, 100)...)
			all[fmt.Sprintf("%s, version %d", name, version)] = msg
		}
	}
	return all
}

func TestResponderDoesNotAllocate(t *testing.T) {
	for name, msg := range callMessages() {
		t.Run(name, func(t *testing.T) {
			r := newTestResponder()
			acts := served(t, r, msg, nil)
			if n := testing.AllocsPerRun(100, func() { acts = served(t, r, msg, acts) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// TestDuplexDoesNotAllocate: nor with calls in both directions, the server's own
// included.
func TestDuplexDoesNotAllocate(t *testing.T) {
	for _, version := range []uint32{1, 2} {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) { duplexDoesNotAllocate(t, version) })
	}
}

func duplexDoesNotAllocate(t *testing.T, version uint32) {
	msg := callMessages()[fmt.Sprintf("inline, version %d", version)]
	r := newTestResponder()
	var in Inbound
	d := settings.Default()
	s := d.Reverse()
	q := NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 100, Reverse: true, Version: version, Settings: &s})
	in.Calls(r, true)
	in.Replies(q)
	q.Connected(4096, 4096)
	post(q, q.Start(nil))
	o := &Outgoing{StreamLen: 40, MaxReply: 100}
	var acts, other []Action
	answer, h := make([]byte, 0, 100), new(Header)
	once := func() {
		acts = served(t, r, msg, acts)
		if q.Plan(o) != nil {
			t.Fatal("plan")
		}
		if now, _ := q.Begin(o); !now {
			t.Fatal("no credit")
		}
		other, _ = q.Launch(o, other[:0])
		o.Build()
		h.XID, h.Version, h.Credits, h.Direction = o.XID, version, 1, rpcrdma2.Reply
		answer = oncrpc.AppendAcceptedReply(h.Append(answer[:0]), o.XID)
		a := in.Arrive(0, answer, Invalidation{})
		if a.Call {
			t.Fatal("taken for a call")
		}
		if other = q.Arrived(a, other[:0]); o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func newTestResponder() *Responder {
	s := settings.Default()
	s.Extensions = settings.ExtV2
	r := NewResponder(ResponderConfig{
		PeerReceive: 4096, ToldSend: 4096, PeerInvalidates: true, MaxTransfer: 1 << 30, MaxReceives: 100, Receive: 4096, Settings: &s,
	})
	postCalls(r, r.Start(nil))
	return r
}

func BenchmarkResponder(b *testing.B) {
	for name, msg := range callMessages() {
		b.Run(name, func(b *testing.B) {
			r := newTestResponder()
			acts := served(b, r, msg, nil)
			b.ReportAllocs()
			for b.Loop() {
				acts = served(b, r, msg, acts)
			}
		})
	}
}
