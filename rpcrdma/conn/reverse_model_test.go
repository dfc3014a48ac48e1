package conn

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// duplexEnd is one end of a connection with roles of both directions, which
// share its receives.
type duplexEnd struct {
	t        fataler
	server   bool // its responder is forward, its requester reverse
	settings settings.Settings
	q        *Requester
	s        *Responder
	in       Inbound

	recvs    []uint32 // posted
	nextRecv uint32
	shortBy  int // receives that are not to be had next

	out              [][]byte // messages that it sent and nobody took
	serving, sending []*Call
	reading          []*Long
	open             []*Outgoing // begun, not complete
	completed        int
	groups           int // calls of several transmissions that went out
	dead             bool
	judge            *judge
}

const duplexReceives = 60 // for each direction

func newDuplexEnd(t fataler, server bool, s settings.Settings) *duplexEnd {
	e := &duplexEnd{t: t, server: server, settings: s, judge: newJudge(t, server)}
	forward, reverse := s, s.Reverse()
	qs, ss := &forward, &reverse
	if server {
		qs, ss = ss, qs
	}
	cfg := RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: duplexReceives, FirstXID: 100, Reverse: server, Settings: qs}
	if s.Extensions.Has(settings.ExtXmit) { // version 2, and both sides told each other
		cfg.Version = rpcrdma2.Version
	}
	e.q = NewRequester(cfg)
	e.s = NewResponder(ResponderConfig{PeerReceive: 4096, ToldSend: 4096, MaxTransfer: 1 << 20, MaxReceives: duplexReceives, Reverse: !server, Settings: ss})
	if cfg.Version != 0 {
		all := continuing()
		told := valuesOf(&all, 4096)
		e.q.Heard(&told, nil)
		e.s.Speak(cfg.Version)
		e.judge.r.Gap() // messages that the referee did not see
	}
	e.fromQ(e.q.Start(nil))
	e.fromS(e.s.Start(nil))
	e.q.Connected(4096, 4096)
	e.s.Takes(4096)
	e.in.Replies(e.q)
	e.in.Calls(e.s, true)
	return e
}

func (e *duplexEnd) post(n int) int {
	n -= min(e.shortBy, n)
	e.shortBy = 0
	for range n {
		e.nextRecv++
		e.recvs = append(e.recvs, e.nextRecv)
	}
	return n
}

// both carries out what the roles have in common.
func (e *duplexEnd) both(a Action) {
	switch a := a.(type) {
	case Repost:
		if slices.Contains(e.recvs, a.Recv) {
			e.t.Fatalf("receive posted twice")
		}
		e.recvs = append(e.recvs, a.Recv)
	case FreeReceive:
		if slices.Contains(e.recvs, a.Recv) {
			e.t.Fatalf("posted receive freed")
		}
	case Fail:
		if a.Err == nil {
			e.t.Fatalf("fails without a reason")
		}
		e.dead = true
	}
}

func (e *duplexEnd) fromQ(acts []Action) {
	for _, a := range acts {
		e.both(a)
		switch a := a.(type) {
		case PostReceives:
			e.fromQ(e.q.Posted(a.N, e.post(a.N), nil))
		case Ready:
			e.launch(a.Out)
		case Complete:
			e.complete(a.Out)
		case Fence:
			e.fromQ(e.q.Fenced(a.Out, nil))
		case Complain:
			h := e.q.Complaint()
			e.send(h.Append(nil))
		case FetchReply:
			e.judge.reads(a.Reading.Fetches, nil)
			e.fromQ(e.q.ReplyFetched(a.Reading, nil))
		case SendDone:
			h := e.q.Done(a.XID)
			e.send(h.Append(nil))
		}
	}
}

func (e *duplexEnd) fromS(acts []Action) {
	for _, a := range acts {
		e.both(a)
		switch a := a.(type) {
		case PostReceives:
			e.s.Posted(a.N, e.post(a.N))
		case Deliver:
			e.serving = append(e.serving, a.Call)
		case Fetch:
			if !e.server {
				e.t.Fatalf("the reverse responder reads")
			}
			e.fromS(e.s.NoMemory(a.Call, nil))
		case Send:
			if !e.server && len(a.Call.Answer.Writes) > 0 {
				e.t.Fatalf("the reverse responder writes")
			}
			e.sending = append(e.sending, a.Call)
			e.judge.writes(a.Call.Answer.Writes)
			for _, m := range answerOf(a.Call) {
				e.judge.sends(m.msg, m.inv)
				e.out = append(e.out, m.msg)
			}
		}
	}
}

// call begins a call of stream bytes with a reply of at most reply.
func (e *duplexEnd) call(stream, reply int) {
	e.plan(&Outgoing{StreamLen: stream, MaxReply: reply})
}

func (e *duplexEnd) plan(o *Outgoing) {
	if err := e.q.Plan(o); err != nil {
		if !e.server || !errors.Is(err, ErrCallTooLong) {
			e.t.Fatalf("plan: %v", err)
		}
		return
	}
	e.fromQ(e.q.Prepare(o, nil))
	now, err := e.q.Begin(o)
	if errors.Is(err, ErrReplan) {
		e.plan(o)
		return
	}
	if err != nil {
		e.t.Fatalf("begin: %v", err)
	}
	e.open = append(e.open, o)
	if now {
		e.launch(o)
	}
}

func (e *duplexEnd) launch(o *Outgoing) {
	acts, ok := e.q.Launch(o, nil)
	e.fromQ(acts)
	if !ok {
		return
	}
	o.Build()
	for _, msg := range sendsOf(o) {
		if len(msg) > 4096 {
			e.t.Fatalf("sends %d bytes", len(msg))
		}
		e.send(msg)
	}
	e.groups += min(len(o.More), 1)
}

func (e *duplexEnd) complete(o *Outgoing) {
	i := slices.Index(e.open, o)
	if i < 0 {
		e.t.Fatalf("a call completes twice")
	}
	e.open = slices.Delete(e.open, i, i+1)
	if errors.Is(o.Err, ErrReplan) {
		e.plan(o)
		return
	}
	e.completed++
}

// receive takes a message of the peer.
func (e *duplexEnd) receive(msg []byte) {
	if len(e.recvs) == 0 {
		e.t.Fatalf("no receive posted")
	}
	e.arrived(e.arrive(msg, Invalidation{}))
}

// arrive puts a message into a receive.
func (e *duplexEnd) arrive(msg []byte, inv Invalidation) *Arrival {
	e.judge.arrives(msg, inv)
	return e.in.Arrive(take(&e.recvs, 0), msg, inv)
}

// send sends a message that invalidates nothing.
func (e *duplexEnd) send(msg []byte) {
	e.judge.sends(msg, Invalidation{})
	e.out = append(e.out, msg)
}

// arrived gives a message to its role, once it is read.
func (e *duplexEnd) arrived(a *Arrival) {
	if a.Long != nil {
		e.reading = append(e.reading, a.Long)
		return
	}
	switch {
	case a.Interrupts && a.Call:
		e.fromQ(e.q.Interrupted(a, nil))
	case a.Interrupts:
		e.fromS(e.s.Interrupted(a, nil))
	}
	if a.Call {
		e.fromS(e.s.Arrived(a, nil))
	} else {
		e.fromQ(e.q.Arrived(a, nil))
	}
}

func (e *duplexEnd) set(s settings.Settings) {
	e.settings = s
	forward, reverse := s, s.Reverse()
	if e.server {
		e.fromS(e.s.SetSettings(&forward, nil))
		e.fromQ(e.q.SetSettings(&reverse, nil))
	} else {
		e.fromQ(e.q.SetSettings(&forward, nil))
		e.fromS(e.s.SetSettings(&reverse, nil))
	}
}

// check: the receives posted are those that the directions count, and enough
// for what the peer may send.
func (e *duplexEnd) check() {
	e.t.Helper()
	if e.dead {
		return
	}
	if n := int(e.q.spend.Posted()) + e.s.grants.Posted(); n != len(e.recvs)+len(e.reading) {
		e.t.Fatalf("%d receives posted, %d messages being read, %d counted", len(e.recvs), len(e.reading), n)
	}
	if n := e.s.grants.Posted() + e.s.grants.Held(); n < e.s.grants.Limit()+credit.Slack {
		e.t.Fatalf("%d receives for %d calls", n, e.s.grants.Limit())
	}
	if came := uint32(len(e.q.gather.Recvs)); e.q.spend.Posted()+came < e.q.spend.InFlight() {
		e.t.Fatalf("%d receives for %d replies", e.q.spend.Posted()+came, e.q.spend.InFlight())
	}
}

// steps are the things that may happen next at this end.
func (e *duplexEnd) steps(peer *duplexEnd, reply func() int) (all []func()) {
	if len(e.out) > 0 {
		all = append(all, func() { peer.receive(take(&e.out, 0)) })
	}
	for i := range e.serving {
		all = append(all, func() { e.fromS(e.s.Reply(take(&e.serving, i), reply(), nil, nil)) })
	}
	for i := range e.sending {
		all = append(all, func() { e.s.Sent(take(&e.sending, i)) })
	}
	return all
}

func genDuplexSettings(t *rapid.T) settings.Settings {
	s := settings.Default()
	s.CreditsMax = uint32(rapid.IntRange(1, 20).Draw(t, "credits"))
	s.CreditsBackchannel = uint32(rapid.IntRange(1, 20).Draw(t, "backchannel"))
	s.CreditsPolicy = settings.Policy(rapid.IntRange(0, 1).Draw(t, "policy"))
	return s
}

// TestDuplexCredits: over random schedules of calls in both directions,
// cancellations, settings and shortages nobody sends more than was granted, no
// message finds no receive, and neither direction waits for the other: every call
// ends once.
func TestDuplexCredits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := []*duplexEnd{newDuplexEnd(t, false, genDuplexSettings(t)), newDuplexEnd(t, true, genDuplexSettings(t))}
		reply := func() int { return 24 + 4*rapid.SampledFrom([]int{0, 7, 900, 1100}).Draw(t, "reply") }
		begun, refused := 0, false
		steps := func() []func() {
			return append(ends[0].steps(ends[1], reply), ends[1].steps(ends[0], reply)...)
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			e := ends[rapid.IntRange(0, 1).Draw(t, "end")]
			switch rapid.IntRange(0, 19).Draw(t, "what") {
			case 0, 1, 2, 3, 4:
				n := len(e.open) + e.completed
				e.call(40+4*rapid.IntRange(0, 900).Draw(t, "stream"), 24)
				begun += len(e.open) + e.completed - n
			case 5:
				if len(e.open) > 0 {
					e.fromQ(e.q.Cancel(e.open[rapid.IntRange(0, len(e.open)-1).Draw(t, "cancel")], nil))
				}
			case 6:
				e.set(genDuplexSettings(t))
			case 7:
				e.shortBy = rapid.IntRange(0, 8).Draw(t, "short")
			default:
				if all := steps(); len(all) > 0 {
					all[rapid.IntRange(0, len(all)-1).Draw(t, "next")]()
				}
			}
			ends[0].check()
			ends[1].check()
		}
		for all := steps(); len(all) > 0; all = steps() {
			all[rapid.IntRange(0, len(all)-1).Draw(t, "next")]()
			ends[0].check()
			ends[1].check()
		}
		for _, e := range ends {
			refused = refused || e.dead
			if len(e.open) > 0 || e.q.spend.InFlight() != 0 || e.s.grants.Held() != 0 || len(e.s.xids) != 0 || len(e.q.sent) != 0 {
				t.Fatalf("server %v: %d calls open, %d in flight, %d held; deadlock?", e.server, len(e.open), e.q.spend.InFlight(), e.s.grants.Held())
			}
		}
		if n := ends[0].completed + ends[1].completed; n != begun || refused {
			t.Fatalf("%d calls, %d complete, ended %v", begun, n, refused)
		}
	})
}

// FuzzDuplex: a hostile peer in both directions, against an end of either kind
// that makes and answers calls.
func FuzzDuplex(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x01\x20\x00\x00\x00\x01\x03\x04abcd\x00"))
	f.Add([]byte("\x01\x02\x00\x01\x00\x05\x00\x04\x01\x20\x00\x00\x00\x01\x02\x00\x03\x00\x10"))
	// A call of ours, answered; one of the peer with a write chunk.
	f.Add([]byte("\x00\x02\x00\x04\x07\x01\x01\x03\x09\x01\x20\x00\x00\x01\x01\x01\x10\x00\x07\x00\x01\x03\x04abcd\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &script{b: data}
		set := settings.Default()
		set.CreditsMax, set.CreditsBackchannel = uint32(s.byte()%16), uint32(s.byte()%16)
		e := newDuplexEnd(t, len(data)%2 == 0, set)
		if !e.server {
			e.q.MayRead()
		}
		for s.more() && !e.dead {
			if len(e.recvs) == 0 && len(e.reading) > 0 { // the peer has used more than its grant: its next message ends the connection
				break
			}
			switch s.byte() % 10 {
			case 0, 1:
				e.receive(s.hostileMessage(uint32(100 + s.byte()%8)))
			case 2:
				e.call(40+s.uint16()%3000, s.uint16()%3000)
			case 3:
				e.answerOne(s)
			case 4:
				if c, ok := pick(s, &e.serving); ok {
					e.fromS(e.s.Reply(c, 24+s.uint16()%9000, nil, nil))
				}
			case 5:
				if c, ok := pick(s, &e.sending); ok {
					e.s.Sent(c)
				}
			case 6:
				if len(e.open) > 0 {
					e.fromQ(e.q.Cancel(e.open[int(s.byte())%len(e.open)], nil))
				}
			case 7:
				set.CreditsMax, set.CreditsBackchannel = uint32(s.byte()%16), uint32(s.byte()%16)
				set.Extensions = settings.Extensions(s.byte())
				e.set(set)
			case 8:
				e.receive(longMessage(uint32(100+s.byte()%8), uint32(s.byte())))
			case 9:
				if l, ok := pick(s, &e.reading); ok {
					e.arrived(e.longRead(l, s.longText(uint32(100+s.byte()%8))))
				}
			}
			e.check()
		}
		e.fromQ(e.q.Lost(errors.New("end"), nil))
		if len(e.open) != 0 {
			t.Fatalf("%d calls never complete", len(e.open))
		}
	})
}

// longRead completes the reads of a message's chunks. text is the beginning of the
// RPC message.
func (e *duplexEnd) longRead(l *Long, text []byte) *Arrival {
	mem := make([][]byte, len(l.Reads.Chunks))
	for i, c := range l.Reads.Chunks {
		mem[i] = make([]byte, c.Length)
	}
	copy(mem[0], text)
	e.judge.reads(l.Fetches, mem)
	return e.in.Read(l, mem[0])
}

// longText is the contents of a position-zero chunk.
func (s *script) longText(xid uint32) []byte {
	switch s.byte() % 4 {
	case 0:
		return s.bytes(int(s.byte()))
	case 1:
		return oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 1, Version: 1})
	}
	return oncrpc.AppendAcceptedReply(nil, xid)
}

// answerOne answers a call of ours truly, or nearly so.
func (e *duplexEnd) answerOne(s *script) {
	for _, o := range e.open {
		if o.state != outSent || s.byte()%4 == 0 {
			continue
		}
		h := o.Header
		h.Credits, h.Reads = uint32(s.byte()), nil
		b := oncrpc.AppendAcceptedReply(h.Append(nil), o.XID)
		if s.byte()%4 == 0 {
			b[int(s.byte())%len(b)] ^= s.byte()
		}
		e.receive(b)
		return
	}
}
