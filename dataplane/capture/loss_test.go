package capture

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestDisorder checks that retransmissions, other segment boundaries and
// another order in the capture change nothing.
func TestDisorder(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		tp := &tape{}
		session(tp.talk(spec{mss: 200 + rnd.IntN(1500), payload: 100 + rnd.IntN(3000), crc: rnd.IntN(2) == 0}))
		for range 10 {
			i := 3 + rnd.IntN(len(tp.frames)-3)
			switch f := tp.frames[i]; rnd.IntN(3) {
			case 0: // captured twice
				tp.frames = slices.Insert(tp.frames, i+rnd.IntN(len(tp.frames)-i), f)
			case 1: // lost and retransmitted
				j := min(i+rnd.IntN(patience/2), len(tp.frames)-1)
				tp.frames = slices.Insert(slices.Delete(tp.frames, i, i+1), j, f)
			case 2: // retransmitted together with the segment before
				for j := i - 1; j >= 0; j-- {
					if p := tp.frames[j]; p.from == f.from && p.seq+uint32(len(p.data)) == f.seq && p.flags == "" && f.flags == "" {
						f.seq, f.data = p.seq, slices.Concat(p.data, f.data)
						tp.frames = slices.Insert(tp.frames, i+1, f)
						break
					}
				}
			}
		}
		c, got := one(t, tp.file(t))
		got = slices.DeleteFunc(got, func(s string) bool { return strings.HasSuffix(s, "close") })
		want := slices.DeleteFunc(said(), func(s string) bool { return strings.HasSuffix(s, "close") })
		if !slices.Equal(got, want) || c.Gaps+c.MissingBytes > 0 {
			t.Fatalf("seed %d, %+v: heard\n%swant\n%s", seed, c, lines(got), lines(want))
		}
	}
}

// TestSilentFlowsWithHoles: connections that have lost much, and say no more, do not keep another
// one from waiting for a segment that comes a little later.
func TestSilentFlowsWithHoles(t *testing.T) {
	tp, long := &tape{}, noise(60000, 5)
	for port := range uint16(30) { // more than may wait, the last in small pieces
		f := frame{from: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), 1000+port), to: netip.MustParseAddrPort("192.0.2.1:20049"), seq: 1, ack: 77, flags: "S"}
		tp.frames = append(tp.frames, f)
		pieces, size := 65, len(long)
		if port >= 20 {
			pieces, size = 4000, 10
		}
		for i := range pieces { // with a hole before each
			f.flags, f.seq, f.ack, f.data = "", uint32(2*(i+1)*size), 1, long[:size]
			tp.frames = append(tp.frames, f)
		}
	}
	begin := len(tp.frames)
	session(tp.talk(spec{mss: 1400, payload: 3000}))
	late := begin + 8
	f := tp.frames[late]
	tp.frames = slices.Insert(slices.Delete(tp.frames, late, late+1), late+5, f)
	if c, _ := one(t, tp.file(t)); c.Gaps+c.MissingBytes > 0 {
		t.Errorf("%d gaps, %d bytes are missing", c.Gaps, c.MissingBytes)
	}
}

// TestLoss removes random frames. The judge must get the remaining events in
// order. Where an event is missing, there is a gap or its data is cut.
func TestLoss(t *testing.T) {
	whole := 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		tp := &tape{}
		s := spec{mss: 200 + rnd.IntN(1500), payload: 100 + rnd.IntN(3000), crc: rnd.IntN(2) == 0}
		s.markers = [2]bool{rnd.IntN(4) == 0, rnd.IntN(4) == 0}
		session(tp.talk(s))
		for range 1 + rnd.IntN(3) {
			i := 5 + rnd.IntN(len(tp.frames)-8)
			if rnd.IntN(2) == 0 {
				tp.frames = slices.Delete(tp.frames, i, i+1)
			} else {
				tp.frames[i].cut = rnd.IntN(len(tp.frames[i].data) + 1)
			}
		}
		c, got := one(t, tp.file(t))
		if c.MissingBytes == 0 {
			whole++
		}
		if at, ok := subsequence(got, said()); !ok && (at < len(got) || c.GivenUp == "") {
			t.Fatalf("seed %d, %+v: event %d was not said:\n%s", seed, s, at, lines(got))
		}
	}
	if whole > 100 {
		t.Errorf("nothing was missing in %d of 300 captures", whole)
	}
}

// subsequence reports whether got is want with events missing only at gaps, and
// some events cut. at is the first wrong event.
func subsequence(got, want []string) (at int, ok bool) {
	gap := false
	for i, g := range got {
		if g == "gap" {
			gap = true
			continue
		}
		found := slices.IndexFunc(want, func(w string) bool { return w == g || isCut(g, w) })
		if found < 0 || found > 0 && !gap {
			return i, false
		}
		want, gap = want[found+1:], false
	}
	return len(got), gap || len(want) == 0
}

// isCut reports whether g is the event w with a part of its data missing.
func isCut(g, w string) bool {
	head, _, cut := strings.Cut(g, " cut at ")
	if !cut {
		return false
	}
	head = head[:strings.LastIndex(head, " ")] // without the checksum
	return strings.HasPrefix(w, head+" ")
}

// TestResumes checks that after a loss in both directions the connection is
// followed again once a Send was found in each.
func TestResumes(t *testing.T) {
	for _, s := range []spec{{}, {crc: true}, {markers: [2]bool{true, true}, crc: true}, {payload: 60000, mss: 60000}} {
		tp := &tape{}
		k := tp.talk(s)
		k.null(1)
		at := len(tp.frames)
		k.null(2)
		k.null(3) // its call comes while the other direction is still blind
		k.read(4, 3000)
		tp.frames = slices.Delete(tp.frames, at, at+2) // a call and its reply
		c, got := one(t, tp.file(t))
		want := append(said()[:3:3], "gap", "gap")
		if len(got) != 1+2+2+1+3 || !slices.Equal(got[:5], want) || c.Gaps != 2 || c.MissingBytes == 0 || c.GivenUp != "" {
			t.Errorf("%+v: %+v heard\n%s", s, c, lines(got))
		}
	}
}

// TestMidway checks that a capture which begins midway is followed from the
// first Send on. The sides are recognised without the port.
func TestMidway(t *testing.T) {
	for _, s := range []spec{{}, {crc: true}, {mss: 100, payload: 60000}} {
		for _, from := range []int{5, 6, 9} {
			tp := &tape{}
			session(tp.talk(s))
			for i := range tp.frames {
				for _, end := range []*netip.AddrPort{&tp.frames[i].from, &tp.frames[i].to} {
					if end.Port() == nfsRDMAPort {
						*end = netip.AddrPortFrom(end.Addr(), 700)
					}
				}
			}
			tp.frames = tp.frames[from:]
			c, got := one(t, tp.file(t))
			if c.Peer != "192.0.2.7:1001" || c.Handshake || len(got) < 8 || got[0] != "gap" {
				t.Errorf("%+v: %+v heard\n%s", s, c, lines(got))
			}
			if at, ok := subsequence(got, said()); !ok {
				t.Errorf("%+v from %d: event %d was not said:\n%s", s, from, at, lines(got))
			}
		}
	}
}

// TestMidwayOtherFirstSend checks that a connection on another port is not taken the wrong way round when
// the first Send of the capture has no RPC message in it, or is a callback.
func TestMidwayOtherFirstSend(t *testing.T) {
	segment := rpcrdma1.Segment{Handle: 1, Length: 8192, Offset: 4096}
	v1 := rpcrdma1.Header{XID: 9, Version: 1, Credits: 8, Proc: rpcrdma1.NoMsg}
	long, reply, refused := v1, v1, v1
	long.Reads = []rpcrdma1.ReadSegment{{Segment: segment}}
	reply.HasReply, reply.Reply = true, rpcrdma1.WriteChunk{segment}
	refused.Proc, refused.Err = rpcrdma1.Error, rpcrdma1.ErrChunk
	optional := rpcrdma2.Header{Header: rpcrdma1.Header{XID: 9, Version: 2, Credits: 8, Proc: rpcrdma2.Optional}, Option: rpcrdma2.OptRequest}
	respond := optional
	respond.Direction, respond.Option = rpcrdma2.Reply, rpcrdma2.OptRespond
	continued := optional
	continued.Option, continued.Info = rpcrdma2.OptXmtCont, (&rpcrdma2.XmtCont{Number: 1, Initial: rpcrdma2.OptXmtReq, PayloadLength: 8}).Append(nil)
	inline, inline2 := v1, rpcrdma2.Header{Header: v1}
	inline.Proc, inline2.Proc, inline2.Version = rpcrdma1.Msg, rpcrdma1.Msg, rpcrdma2.Version
	callback := &oncrpc.Call{XID: 9, Program: 0x40000000, Version: 1, Procedure: 1}
	for _, c := range []struct {
		name   string
		from   int
		header []byte
	}{
		{"long call", client, long.Append(nil)},
		{"reply in the reply chunk", server, reply.Append(nil)},
		{"error", server, refused.Append(nil)},
		{"REQUEST", client, optional.Append(nil)},
		{"RESPOND", server, respond.Append(nil)},
		{"data that looks like a reply", client, append(continued.Append(nil), 0, 0, 0, 0, 0, 0, 0, 1)},
		{"data that looks like a callback", client, oncrpc.AppendCall(continued.Append(nil), callback)},
		{"callback", server, oncrpc.AppendCall(inline.Append(nil), callback)},
		{"callback in version 2", server, oncrpc.AppendCall(inline2.Append(nil), callback)},
	} {
		tp := &tape{}
		k := tp.talk(spec{})
		k.ends[server] = netip.MustParseAddrPort("192.0.2.1:700")
		tp.frames = nil
		k.segment(1-c.from, "", nil)
		k.send(c.from, c.header)
		if got, _ := one(t, tp.file(t)); got.Peer != "192.0.2.7:1001" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestOneWay checks that a capture of only one direction is not judged.
func TestOneWay(t *testing.T) {
	for _, from := range []int{0, 5} {
		tp := &tape{}
		session(tp.talk(spec{}))
		tp.frames = tp.frames[from:]
		server := tp.frames[0].to
		tp.frames = slices.DeleteFunc(tp.frames, func(f frame) bool { return f.from == server })
		report, logs := heard(t, tp.file(t))
		if len(logs) != 0 || len(report.NotFollowed)+int(report.OtherFlows) != 1 {
			t.Errorf("from %d: %d connections, %+v", from, len(logs), report)
		}
	}
}

// TestBlindTransport checks that the rules of the transport also respect
// losses: a Read Response whose Read Request was lost is no violation.
func TestBlindTransport(t *testing.T) {
	tp := &tape{}
	k := tp.talk(spec{})
	k.null(1)
	at := len(tp.frames)
	k.wrote(2, 5000)
	tp.frames = slices.Delete(tp.frames, at+1, at+2) // the Read Request
	c, _ := one(t, tp.file(t))
	if c.ViolationsFound > 0 || c.Gaps == 0 {
		t.Errorf("%+v", c)
	}
}

// TestReset checks that a connection ends when one side resets it.
func TestReset(t *testing.T) {
	tp := &tape{}
	for range maxFollowed + 10 {
		k := tp.talk(spec{port: uint16(1000 + len(tp.frames)/8)})
		k.null(1)
		k.segment(client, "R", nil)
	}
	report, logs := heard(t, tp.file(t))
	if len(logs) != maxFollowed+10 || len(report.NotFollowed) > 0 {
		t.Errorf("%d connections, not followed: %v", len(logs), report.NotFollowed)
	}
}
