package conn

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// continuing are settings with extensions.continuation on.
func continuing() settings.Settings {
	s := settings.Default()
	s.CreditsMax = 16
	s.Extensions |= settings.ExtV2 | settings.ExtXmit | settings.ExtContinuation
	return s
}

// agreedPair is a pair that both sides' first call is behind.
func agreedPair(t *testing.T) *pair {
	t.Helper()
	p := newPair(t, continuing(), continuing())
	p.call(&pairCall{out: &Outgoing{StreamLen: 40}, reply: 24})
	p.finish(first)
	return p
}

// option is a message of an optional operation with some payload.
func optionMessage(xid uint32, d rpcrdma2.Direction, body rpcrdma2.Body, payload []byte) []byte {
	h := Header{rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: 16, Proc: rpcrdma2.Optional}, Direction: d, Option: body.Type()}}
	h.Info = body.Append(nil)
	return append(h.Append(nil), payload...)
}

func plainMessage(xid uint32, d rpcrdma2.Direction, payload []byte) []byte {
	h := Header{rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: 16}, Direction: d}}
	return append(h.Append(nil), payload...)
}

func rpcCallOf(xid uint32) []byte {
	return oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 1, Version: 1})
}

// groupOffences are the messages of a hostile peer and what is told of them. The
// first of each group has XID 50 and is for three transmissions.
func groupOffences(d rpcrdma2.Direction, itype rpcrdma2.OptType, lead func(count, length uint32) rpcrdma2.Body) map[string]struct {
	messages [][]byte
	want     string
} {
	part := func(xid, number uint32, itype rpcrdma2.OptType, length uint32) []byte {
		return optionMessage(xid, d, &rpcrdma2.XmtCont{Number: number, Initial: itype, PayloadLength: length}, make([]byte, 8))
	}
	start := optionMessage(50, d, lead(3, 8), make([]byte, 8))
	dir := []string{"call", "reply"}[d]
	id := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
	other := itype ^ rpcrdma2.OptXmtReq ^ rpcrdma2.OptXmtResp
	otherText := map[rpcrdma2.OptType]string{5: "expected=5 actual=6", 6: "expected=6 actual=5"}[itype]
	interrupting := map[rpcrdma2.OptType]string{5: "actual=5", 6: "actual=6"}[itype]
	return map[string]struct {
		messages [][]byte
		want     string
	}{
		"BADHMT": {[][]byte{start, plainMessage(60, d, nil)}, id("XMTERR bad=60/DIR/0 lead=50/DIR/0 code=1 expected=5 actual=0")},
		"BADOMT, another group": {[][]byte{start, optionMessage(60, d, lead(1, 0), nil)},
			id("XMTERR bad=60/DIR/0 lead=50/DIR/0 code=2 expected=7 " + interrupting)},
		"BADOMT, of another first": {[][]byte{start, part(50, 1, other, 8), part(50, 2, itype, 8)}, id("XMTERR bad=50/DIR/1 lead=50/DIR/0 code=2 " + otherText)},
		"BADCONT":                  {[][]byte{part(70, 4, itype, 8)}, id("XMTERR bad=70/DIR/4 code=3")},
		"BADSEQ, one is missing":   {[][]byte{start, part(50, 2, itype, 8)}, id("XMTERR bad=50/DIR/2 lead=50/DIR/0 code=4 expected=1 actual=2")},
		"BADSEQ, one comes twice":  {[][]byte{start, part(50, 1, itype, 8), part(50, 1, itype, 8)}, id("XMTERR bad=50/DIR/1 lead=50/DIR/0 code=4 expected=2 actual=1")},
		"BADXID":                   {[][]byte{start, part(51, 1, itype, 8), part(50, 2, itype, 8)}, id("XMTERR bad=51/DIR/1 lead=50/DIR/0 code=5 expected=50 actual=51")},
		"BADPL, of the first":      {[][]byte{optionMessage(50, d, lead(1, 9), make([]byte, 8))}, id("XMTERR bad=50/DIR/0 code=8 value=9 range=0-8")},
		"BADPL":                    {[][]byte{start, part(50, 1, itype, 8), part(50, 2, itype, 12)}, id("XMTERR bad=50/DIR/2 lead=50/DIR/0 code=8 value=12 range=0-8")},
	}
}

// TestGroupOffencesOfRequesters: each is told with XMTERR, which ends the group
// and not the connection, and gives all its receives back.
func TestGroupOffencesOfRequesters(t *testing.T) {
	lead := func(count, length uint32) rpcrdma2.Body {
		return &rpcrdma2.XmtReq{Count: count, PayloadLength: length}
	}
	for name, tc := range groupOffences(rpcrdma2.Call, rpcrdma2.OptXmtReq, lead) {
		t.Run(name, func(t *testing.T) {
			p := agreedPair(t)
			posted := len(p.sRecvs)
			var told []string
			var reported error
			take := func(acts []Action) {
				for _, a := range acts {
					switch a := a.(type) {
					case Repost:
						posted++
					case PostReceives:
						p.s.Posted(a.N, a.N)
						posted += a.N
					case Send:
						if a.Call.Answer.Header.Proc == rpcrdma2.Optional && a.Call.Answer.Header.Option == rpcrdma2.OptXmtError {
							told = append(told, formatOption(a.Call.Answer.Header))
						}
						p.s.Sent(a.Call)
					case Report:
						if reported == nil {
							reported = a.Err
						}
					case Fail:
						t.Fatal(a.Err)
					}
				}
			}
			for _, m := range tc.messages {
				posted--
				take(p.s.Receive(1, m, nil))
			}
			if len(told) != 1 || told[0] != " "+tc.want {
				t.Errorf("told %q, want %q", told, tc.want)
			}
			if e, ok := errors.AsType[*transmission.Error](reported); !ok || e.Told {
				t.Errorf("reported %v", reported)
			}
			if p.s.Busy() != 0 || p.s.grants.Posted() != posted || len(p.s.xids) != 0 {
				t.Errorf("%d calls held, %d receives counted, %d posted", p.s.Busy(), p.s.grants.Posted(), posted)
			}
			posted--
			if acts := p.s.Receive(1, plainMessage(80, rpcrdma2.Call, rpcCallOf(80)), nil); !slices.ContainsFunc(acts, is[Deliver]) {
				t.Errorf("no call is taken after it: %+v", acts)
			}
		})
	}
}

// TestGroupOffencesOfResponders: the same the other way. The call fails, as
// it was made; the next ones work.
func TestGroupOffencesOfResponders(t *testing.T) {
	lead := func(count, length uint32) rpcrdma2.Body {
		return &rpcrdma2.XmtResp{Count: count, PayloadLength: length}
	}
	for name, tc := range groupOffences(rpcrdma2.Reply, rpcrdma2.OptXmtResp, lead) {
		t.Run(name, func(t *testing.T) {
			p := agreedPair(t)
			o := &Outgoing{StreamLen: 40, MaxReply: 9000, Own: true, XID: 50}
			must(t, p.c.Plan(o))
			p.client(p.c.Prepare(o, nil))
			if now, err := p.c.Begin(o); !now || err != nil {
				t.Fatal(now, err)
			}
			if _, ok := p.c.Launch(o, nil); !ok || !o.transmitted || o.spare < 2 {
				t.Fatalf("not in transmissions: %+v", o)
			}
			o.Build()
			var told []string
			done := 0
			posted := int(p.c.spend.Posted())
			take := func(acts []Action) {
				for _, a := range acts {
					switch a := a.(type) {
					case Repost:
						posted++
					case PostReceives:
						p.c.Posted(a.N, a.N, nil)
						posted += a.N
					case Complain:
						h := p.c.Complaint()
						told = append(told, formatOption(&h))
						if h.Direction != rpcrdma2.Call {
							t.Errorf("an XMTERR in direction %d", h.Direction)
						}
					case Complete:
						done++
					case Fail:
						t.Fatal(a.Err)
					}
				}
			}
			for _, m := range tc.messages {
				posted--
				take(p.c.Receive(1, m, Invalidation{}, nil))
			}
			if len(told) != 1 || told[0] != " "+tc.want {
				t.Errorf("told %q, want %q", told, tc.want)
			}
			if name != "BADCONT" && (done != 1 || !errors.Is(o.Err, ErrBadReply)) {
				t.Errorf("%d outcomes, %v", done, o.Err)
			}
			if name == "BADCONT" {
				posted--
				take(p.c.Receive(1, plainMessage(50, rpcrdma2.Reply, oncrpc.AppendAcceptedReply(nil, 50)), Invalidation{}, nil))
			}
			if p.c.spend.InFlight() != 0 || p.c.spend.Spare() != 0 || int(p.c.spend.Posted()) != posted || len(p.c.sent) != 0 {
				t.Errorf("%d calls, %d spare, %d receives counted, %d posted", p.c.spend.InFlight(), p.c.spend.Spare(), p.c.spend.Posted(), posted)
			}
			next := &Outgoing{StreamLen: 40, MaxReply: 24}
			must(t, p.c.Plan(next))
			if now, err := p.c.Begin(next); !now || err != nil {
				t.Errorf("the next call: %v, %v", now, err)
			}
		})
	}
}

// TestXmtErrors: every code is understood. A call whose group was refused is made
// again without one; a responder goes on.
func TestXmtErrors(t *testing.T) {
	for code := rpcrdma2.BadHeaderType; code <= rpcrdma2.BadPayload; code++ {
		p := agreedPair(t)
		k := &pairCall{out: &Outgoing{StreamLen: 6000}, reply: 24}
		p.call(k)
		o := k.out
		if len(p.toServer) != 2 || o.uses != 2 {
			t.Fatalf("%d Sends", len(p.toServer))
		}
		p.toServer = nil // as if it had been refused
		e := &rpcrdma2.XmtError{Bad: rpcrdma2.Transmission{XID: o.XID, Number: 1}, Code: code}
		p.toClient = append(p.toClient, arrival{msg: optionMessage(o.XID, rpcrdma2.Reply, e, nil)})
		p.finish(first)
		if k.outcome != "<nil> 0 []" || o.transmitted || p.c.Counters.GroupsRefused != 1 || p.s.Counters.Calls != 2 {
			t.Errorf("code %d: %s, %+v", code, k.outcome, p.c.Counters)
		}
		e.Bad.Direction = rpcrdma2.Reply
		var reported error
		for _, a := range p.s.Receive(take(&p.sRecvs, 0), optionMessage(o.XID, rpcrdma2.Call, e, nil), nil) {
			switch a := a.(type) {
			case Report:
				reported = a.Err
			case Repost:
				p.sRecvs = append(p.sRecvs, a.Recv)
			default:
				t.Errorf("code %d: %T", code, a)
			}
		}
		if e, ok := errors.AsType[*transmission.Error](reported); !ok || !e.Told || e.Code != code || p.s.Counters.Complaints != 1 {
			t.Errorf("code %d: reported %v", code, reported)
		}
		p.call(&pairCall{out: &Outgoing{StreamLen: 6000}, reply: 6000})
		p.finish(first)
	}
}

// TestRefusedGroup: a transmission that was changed on its way has the same call
// made again by explicit RDMA.
func TestRefusedGroup(t *testing.T) {
	p := agreedPair(t)
	k := &pairCall{out: &Outgoing{StreamLen: 10000}, reply: 7000}
	p.call(k)
	if len(p.toServer) != 3 {
		t.Fatalf("%d Sends", len(p.toServer))
	}
	p.toServer[1].msg[31]-- // xnum
	var seen []string
	p.note = func(format string, args ...any) {
		if strings.HasPrefix(format, "requester sends") {
			seen = append(seen, args[0].(string))
		}
	}
	p.refusing = true
	p.finish(first)
	if len(seen) != 1 || !strings.HasPrefix(seen[0], "NOMSG") || p.s.Counters.GroupsRefused != 1 || p.s.Counters.Calls != 2 {
		t.Errorf("%q, %+v", seen, p.s.Counters)
	}
}

// TestResultsInTransmissions: results in the reply to a group travel as directed,
// and what a peer must not answer is refused.
func TestResultsInTransmissions(t *testing.T) {
	const long = 5000
	segment := rpcrdma1.Segment{Handle: 1, Length: long, Offset: 1000}
	reply := func(it rpcrdma2.Item) []byte {
		it.Disp = oncrpc.AcceptedReplySize
		payload := oncrpc.AppendAcceptedReply(nil, 50)
		if it.Place == rpcrdma2.TooShort {
			payload = append(payload, make([]byte, xdr.Padded(int(it.Length)))...)
		}
		return optionMessage(50, rpcrdma2.Reply, &rpcrdma2.XmtResp{Items: []rpcrdma2.Item{it}, Count: 1, PayloadLength: uint32(len(payload))}, payload)
	}
	written := func(n uint32) []rpcrdma1.Segment { s := segment; s.Length = n; return []rpcrdma1.Segment{s} }
	for name, tc := range map[string]struct {
		message []byte
		ok      bool
		written int
	}{
		"written":                   {reply(rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: 4500, Segments: written(4500)}), true, 4500},
		"with roundup":              {reply(rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: 4499, Segments: written(4500)}), true, 4499},
		"too short":                 {reply(rpcrdma2.Item{Place: rpcrdma2.TooShort, Length: 999}), true, 0},
		"no item":                   {reply(rpcrdma2.Item{Place: rpcrdma2.NoItem}), true, 0},
		"left in the stream":        {reply(rpcrdma2.Item{Place: rpcrdma2.TooShort, Length: 1000}), true, 0},
		"placed by Send":            {reply(rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: 4500}), false, 0},
		"below the least":           {reply(rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: 999, Segments: written(1000)}), false, 0},
		"another length":            {reply(rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: 4500, Segments: written(4600)}), false, 0},
		"longer than the chunk":     {reply(rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: 5004, Segments: written(5004)}), false, 0},
		"another chunk":             {reply(rpcrdma2.Item{Place: rpcrdma2.ExplicitRDMA, Length: 4500, Segments: []rpcrdma1.Segment{{Handle: 9, Length: 4500, Offset: 1000}}}), false, 0},
		"one item too few":          {optionMessage(50, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 1, PayloadLength: 24}, oncrpc.AppendAcceptedReply(nil, 50)), false, 0},
		"no transmissions":          {optionMessage(50, rpcrdma2.Reply, &rpcrdma2.XmtResp{Items: []rpcrdma2.Item{{Place: rpcrdma2.NoItem}}, PayloadLength: 24}, oncrpc.AppendAcceptedReply(nil, 50)), false, 0},
		"more than it may":          {optionMessage(50, rpcrdma2.Reply, &rpcrdma2.XmtResp{Items: []rpcrdma2.Item{{Place: rpcrdma2.NoItem}}, Count: 4, PayloadLength: 24}, oncrpc.AppendAcceptedReply(nil, 50)), false, 0},
		"no reply":                  {optionMessage(50, rpcrdma2.Reply, &rpcrdma2.XmtResp{Items: []rpcrdma2.Item{{Place: rpcrdma2.NoItem}}, Count: 1, PayloadLength: 4}, oncrpc.AppendAcceptedReply(nil, 50)), false, 0},
		"a plain reply":             {func() []byte { return plainReply(written(4800)) }(), true, 4800},
		"a reply to a call without": {func() []byte { return plainReply(nil) }(), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := agreedPair(t)
			p.c.settings.DDPMinChunk = 1000
			o := &Outgoing{StreamLen: 5000, MaxReply: 4500, Results: []int{long}, Own: true, XID: 50}
			must(t, p.c.Plan(o))
			p.client(p.c.Prepare(o, nil))
			if now, err := p.c.Begin(o); !now || err != nil {
				t.Fatal(now, err)
			}
			if _, ok := p.c.Launch(o, nil); !ok || !o.transmitted || len(o.Windows) != 1 {
				t.Fatalf("windows %v", o.Windows)
			}
			o.Windows[0].RKey, o.Windows[0].Addr = segment.Handle, segment.Offset
			o.Build()
			fenced := false
			for _, a := range p.c.Receive(1, tc.message, Invalidation{}, nil) {
				fenced = fenced || is[Fence](a)
			}
			p.c.Fenced(o, nil)
			if (o.Err == nil) != tc.ok || o.Written[0] != tc.written || !fenced {
				t.Errorf("%v, %v written, fenced %v", o.Err, o.Written, fenced)
			}
		})
	}
}

func plainReply(c rpcrdma1.WriteChunk) []byte {
	h := Header{rpcrdma2.Header{Header: rpcrdma1.Header{XID: 50, Version: 2, Credits: 16}, Direction: rpcrdma2.Reply}}
	if c != nil {
		h.Writes = []rpcrdma1.WriteChunk{c}
	}
	return oncrpc.AppendAcceptedReply(h.Append(nil), 50)
}
