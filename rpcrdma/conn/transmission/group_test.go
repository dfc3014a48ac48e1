package transmission

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// sent is one Send of a group: its header and the bytes after it.
type sent struct {
	h       rpcrdma2.Header
	payload []byte
}

// sendsOf is a request in a group of Sends of at most limit bytes. Its payload stream
// is stream, of which the bytes from at to end come from an item.
func sendsOf(stream []byte, at, end, limit int) []sent {
	req := rpcrdma2.XmtReq{}
	first := rpcrdma2.OptionalSize(req.Size())
	n := Count(len(stream), first, limit)
	var g Group
	begin, inline := g.Split([]chunk.Piece{
		{From: chunk.Stream, Len: at}, {From: 0, Len: end - at}, {From: chunk.Stream, Off: at, Len: len(stream) - end},
	}, len(stream), first, limit)
	req.Count, req.PayloadLength = uint32(n), uint32(begin)
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: 7, Version: rpcrdma2.Version, Credits: 3}, Direction: rpcrdma2.Call}
	g.Head(&h, &req)
	g.Number(&h)
	bytesOf := func(pieces []chunk.Piece) (b []byte) {
		for _, p := range pieces {
			from := append(stream[:at:at], stream[end:]...)
			if p.From == 0 {
				from = stream[at:end]
			}
			b = append(b, from[p.Off:p.Off+p.Len]...)
		}
		return b
	}
	all := []sent{{h, bytesOf(inline)}}
	for i := range g.More {
		all = append(all, sent{g.More[i].Header, bytesOf(g.More[i].Inline)})
	}
	return all
}

// gather gives all of a group to a Gathering.
func gather(g *Gathering, sends []sent) {
	var req rpcrdma2.XmtReq
	if err := req.Decode(sends[0].h.Info); err != nil {
		panic(err)
	}
	g.Start(&sends[0].h, rpcrdma2.OptXmtReq, req.Count, req.PayloadLength, 0, sends[0].payload)
	for i := range sends[1:] {
		g.Add(&sends[i+1].h, uint32(i+1), sends[i+1].payload)
	}
}

// TestGroupArrives: whatever the length of a message and the limit of a Send, the
// group has as many Sends as Count says, none is longer than the limit, and a
// Gathering has the message and its receives in the end.
func TestGroupArrives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(t, "stream")
		at := rapid.IntRange(0, len(stream)).Draw(t, "at")
		end := rapid.IntRange(at, len(stream)).Draw(t, "end")
		limit := rapid.IntRange(100, 1200).Draw(t, "limit")
		sends := sendsOf(stream, at, end, limit)
		for i, s := range sends {
			if n := s.h.Size() + len(s.payload); n > limit {
				t.Fatalf("Send %d has %d bytes", i, n)
			}
		}
		g := Gathering{Most: len(stream)}
		gather(&g, sends)
		if !g.Whole() || g.Bad || len(g.Recvs) != len(sends) || g.Size != len(stream) || !bytes.Equal(g.Append(nil), stream) {
			t.Fatalf("%+v", g)
		}
		g.End()
		if g.Open || len(g.Parts) > 0 {
			t.Fatal("not ended")
		}
		if g.Most--; g.Most > 0 {
			if gather(&g, sends); !g.Bad || g.Wrong.Code != rpcrdma2.BadPayload {
				t.Fatalf("longer than is taken: %+v", g.Wrong)
			}
		}
	})
}

// TestGroupInterrupted: another message ends a group, and the error names both.
func TestGroupInterrupted(t *testing.T) {
	sends := sendsOf(make([]byte, 2000), 0, 0, 600)
	g := Gathering{Most: 1 << 20}
	gather(&g, sends[:2])
	if g.Whole() {
		t.Fatal("whole before its end")
	}
	other := rpcrdma2.Header{Header: rpcrdma1.Header{XID: 9, Version: rpcrdma2.Version, Proc: rpcrdma1.Msg}}
	g.Interrupt(&other, rpcrdma2.Reply, false)
	want := rpcrdma2.XmtError{
		Code: rpcrdma2.BadHeaderType, Expected: uint32(rpcrdma2.Optional),
		Bad: rpcrdma2.Transmission{XID: 9, Direction: rpcrdma2.Reply}, HasLead: true, Lead: rpcrdma2.Transmission{XID: 7},
	}
	if !g.Whole() || !g.Bad || g.Wrong != want {
		t.Errorf("%+v, want %+v", g.Wrong, want)
	}
}
