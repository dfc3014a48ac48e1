package conn

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// pair is a requester and a responder with a connection between them, whose
// messages, RDMA operations, services and completions make progress one step
// at a time, in any order that a device allows.
type pair struct {
	t        fataler
	settings [2]settings.Settings // requester's, responder's
	c        *Requester
	s        *Responder
	// Messages on their way; the first arrives first.
	toServer, toClient []arrival
	cRecvs, sRecvs     []uint32 // receives posted
	sizes              [2]pairSizes
	telling            [2]int // operations being sent
	acts               [2][]Action
	nextRecv, nextKey  uint32

	fetching, serving, sending []*Call
	fences                     []*Outgoing
	fenced                     map[uint32]bool // keys of windows that were
	reads                      pairReads

	note     func(format string, args ...any) // what happens; may be nil
	calls    []*pairCall
	shortBy  int // receives that are not to be had next
	sessions int
	refusing bool // the responder may refuse a group
	judges   [2]*judge
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// must ends the test if there is an error.
func must(t fataler, err error) {
	if err != nil {
		t.Helper()
		t.Fatalf("%v", err)
	}
}

type arrival struct {
	msg []byte
	inv Invalidation
}

// pairCall is a call with the reply that the service will make.
type pairCall struct {
	out       *Outgoing
	reply     int // bytes of the stream
	results   []int
	most      int   // bytes of the stream at most, if more
	limits    []int // of the results, if others
	short     bool  // the requester expects next to nothing
	expect    int   // bytes of the stream that it expects, if fewer
	begun     bool  // with the requester
	canceled  bool
	completed int
	outcome   string
}

var errCut = errors.New("cut")

func newPair(t fataler, client, server settings.Settings) *pair {
	p := &pair{t: t, settings: [2]settings.Settings{client, server}}
	p.connect(1000)
	return p
}

func (p *pair) tell(format string, args ...any) {
	if p.note != nil {
		p.note(format, args...)
	}
}

// connect begins a session.
func (p *pair) connect(xid uint32) {
	p.sessions++
	p.acts = [2][]Action{}
	p.toServer, p.toClient, p.cRecvs, p.sRecvs = nil, nil, nil, nil
	p.fetching, p.serving, p.sending, p.fences, p.shortBy = nil, nil, nil, nil, 0
	p.fenced, p.reads = make(map[uint32]bool), pairReads{readable: make(map[uint32]bool)}
	p.sizes, p.telling = [2]pairSizes{newPairSizes(4096), newPairSizes(4096)}, [2]int{}
	cs, ss := p.settings[0], p.settings[1]
	p.c = NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 100, FirstXID: xid, MaxTransfer: 1 << 20, Revocable: true, Settings: &cs})
	p.s = NewResponder(ResponderConfig{PeerReceive: 4096, ToldSend: 4096, PeerInvalidates: true, CanInvalidate: true, MaxTransfer: 1 << 20, MaxReceives: 100, Receive: 4096, Settings: &ss})
	p.judge()
	p.client(p.c.Start(nil))
	p.server(p.s.Start(nil))
	p.c.Connected(4096, 4096)
	p.c.MayRead()
	if on := cs.Extensions & ss.Extensions; on.Has(settings.ExtV2|settings.ExtXmit) && !on.Has(settings.ExtCharacteristics) { // as if both told each other
		p.c.chars.Told, p.s.chars.Told = p.s.chars.Own, p.c.chars.Own
		p.judges[0].r.Gap()
		p.judges[1].r.Gap()
	}
	p.client(p.c.Greet(nil))
}

// judge puts a referee at each end. The sizes announced at connect are those in the
// roles' configurations.
func (p *pair) judge() {
	both := wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}
	for who := range p.judges {
		p.judges[who] = newJudge(p.t, who == 1)
		p.judges[who].connect(both, both)
	}
}

// call begins a call.
func (p *pair) call(k *pairCall) {
	k.out.Tag = slices.Index(p.calls, k)
	if k.out.Tag < 0 {
		k.out.Tag = len(p.calls)
		p.calls = append(p.calls, k)
	}
	k.out.MaxReply, k.out.Results = max(k.reply, k.most), k.results
	if k.limits != nil {
		k.out.Results = k.limits
	}
	if k.expect > 0 {
		k.out.MaxReply = k.expect
	}
	if k.short {
		k.out.MaxReply, k.out.Results = 0, nil
	}
	if err := p.c.Plan(k.out); err != nil {
		p.t.Fatalf("plan: %v", err)
	}
	p.client(p.c.Prepare(k.out, nil))
	now, err := p.c.Begin(k.out)
	if errors.Is(err, ErrReplan) {
		p.call(k)
		return
	}
	if err != nil {
		p.t.Fatalf("begin: %v", err)
	}
	k.begun = true
	if now {
		p.launch(k.out)
	}
}

// message is the RPC call without what is in chunks.
func (o *Outgoing) message() []byte {
	b := oncrpc.AppendCall(nil, &oncrpc.Call{XID: o.XID, Program: 1, Version: 1, Procedure: uint32(o.Tag)})
	return append(b, make([]byte, chunk.PiecesLength(o.StreamLen, o.Items)-len(b))...)
}

func (p *pair) launch(o *Outgoing) {
	acts, ok := p.c.Launch(o, nil)
	p.client(acts)
	if !ok {
		return
	}
	for i := range o.Windows {
		p.nextKey++
		o.Windows[i].RKey, o.Windows[i].Addr = p.nextKey, uint64(p.nextKey)*1000
	}
	o.Build()
	p.tell("requester sends %s", o.text())
	for _, msg := range sendsOf(o) {
		p.send(0, arrival{msg: msg})
	}
}

// sendsOf are the Sends of a call.
func sendsOf(o *Outgoing) [][]byte {
	msg := o.Header.Append(nil)
	if o.First == 0 {
		return [][]byte{msg}
	}
	body := o.message()
	if len(o.More) == 0 { // padding comes before items
		return [][]byte{append(append(msg, body...), make([]byte, chunk.Length(o.Inline)-len(body))...)}
	}
	whole := o.First
	for i := range o.More {
		whole += o.More[i].Length
	}
	body = append(body, make([]byte, max(whole-len(body), 0))...) // items in transmissions
	all := [][]byte{append(msg, body[:o.First]...)}
	body = body[o.First:]
	for i := range o.More {
		t := &o.More[i]
		all = append(all, append(t.Header.Append(nil), body[:t.Length]...))
		body = body[t.Length:]
	}
	return all
}

// text is what goes out for a call.
func (o *Outgoing) text() string {
	s := formatHeader(&o.Header)
	for _, pc := range o.Inline {
		s += fmt.Sprintf("; %s + %d, %d bytes", sourceText(pc.From), pc.Off, pc.Len)
	}
	return s + moreText(o.More)
}

// moreText is what follows right after.
func moreText(more []transmission.Transmission) (s string) {
	for i := range more {
		s += fmt.Sprintf("; then %s; %d bytes", formatHeader(&Header{more[i].Header}), more[i].Length)
	}
	return s
}

// post says how many of n receives could be had.
func (p *pair) post(who int, n int) int {
	recvs := p.posted(who)
	n -= min(p.shortBy, n)
	p.shortBy = 0
	for range n {
		p.nextRecv++
		*recvs = append(*recvs, p.nextRecv)
		p.sizes[who].of[p.nextRecv] = p.sizes[who].size
	}
	return n
}

// client carries actions out in order, those that they lead to at the end.
func (p *pair) client(acts []Action) {
	if p.acts[0] = append(p.acts[0], acts...); len(p.acts[0]) > len(acts) {
		return
	}
	for ; len(p.acts[0]) > 0; p.acts[0] = p.acts[0][1:] {
		a := p.acts[0][0]
		p.characterize(0, a)
		switch a := a.(type) {
		case Repost:
			p.cRecvs = append(p.cRecvs, a.Recv)
		case PostReceives:
			p.client(p.c.Posted(a.N, p.post(0, a.N), nil))
		case Ready:
			p.launch(a.Out)
		case Take:
			p.tell("requester takes %d bytes", len(a.Out.Parts[0]))
			for _, part := range a.Out.Parts[1:] {
				p.tell("requester takes %d bytes more", len(part))
			}
		case Complain:
			h := p.c.Complaint()
			p.send(0, arrival{msg: h.Append(nil)})
		case FetchReply, SendDone:
			p.readAction(a)
		case Fence:
			p.tell("requester invalidates its memory")
			p.fences = append(p.fences, a.Out)
		case Complete:
			p.tellOutcome(a.Out)
			p.complete(a.Out)
		case Fail:
			p.t.Fatalf("requester: %v", a.Err)
		}
	}
}

func (p *pair) complete(o *Outgoing) {
	k := p.calls[o.Tag]
	k.begun = false
	if errors.Is(o.Err, errCut) && !k.canceled {
		return // to be made again
	}
	if errors.Is(o.Err, ErrReplan) && !k.canceled {
		p.call(k) // on the same connection, in another version
		return
	}
	k.completed++
	k.outcome = fmt.Sprint(o.Err, o.Long, o.Written)
	switch {
	case o.Err == nil && slices.ContainsFunc(o.Windows, func(w Window) bool { return !w.Revoked }) && p.c.lost == nil:
		p.t.Fatalf("completes with memory exposed")
	case o.Err != nil && k.short && refusedRead(o.Err):
	case o.Err != nil && !k.canceled:
		p.t.Fatalf("call %d: %v", o.Tag, o.Err)
	}
}

func (p *pair) server(acts []Action) {
	if p.acts[1] = append(p.acts[1], acts...); len(p.acts[1]) > len(acts) {
		return
	}
	for ; len(p.acts[1]) > 0; p.acts[1] = p.acts[1][1:] {
		a := p.acts[1][0]
		p.characterize(1, a)
		switch a := a.(type) {
		case Repost:
			p.sRecvs = append(p.sRecvs, a.Recv)
		case PostReceives:
			p.s.Posted(a.N, p.post(1, a.N))
		case Fetch:
			for _, f := range a.Call.Fetches {
				p.tell("responder reads %d bytes from %d@%d to chunk %d + %d", f.Length, f.RKey, f.Addr, f.Chunk, f.Off)
			}
			p.fetching = append(p.fetching, a.Call)
		case Deliver:
			p.tell("responder %s", strings.Replace(deliverText(a.Call), "deliver", "delivers", 1))
			p.serving = append(p.serving, a.Call)
		case Send:
			for _, w := range a.Call.Answer.Writes {
				p.tell("responder writes %s + %d, %d bytes to %d@%d", sourceText(w.From), w.Off, w.Length, w.RKey, w.Addr)
			}
			text := sendText(a.Call)
			p.tell("responder sends %s", strings.TrimPrefix(text[len(text)-1], "send "))
			p.sending = append(p.sending, a.Call)
			p.judges[1].writes(a.Call.Answer.Writes)
			for _, m := range answerOf(a.Call) {
				p.send(1, m)
			}
		case Expose:
			for _, line := range exposeText(a.Call) {
				p.tell("responder exposes%s", strings.TrimPrefix(line, "expose"))
			}
			p.reads.exposing = append(p.reads.exposing, a.Call)
		case Unexpose:
			p.tell("responder invalidates reply %d", a.Exposure.Index)
			p.reads.unexposing = append(p.reads.unexposing, a.Exposure)
		case Report:
			if refusedRead(a.Err) || errors.Is(a.Err, rpcrdma1.ErrVersion) || errors.Is(a.Err, ErrOption) {
				p.tell("responder: %v", a.Err)
				continue
			}
			if _, refused := errors.AsType[*transmission.Error](a.Err); refused && p.refusing {
				continue
			}
			p.t.Fatalf("responder: %v", a.Err)
		case Fail:
			p.t.Fatalf("responder: %v", a.Err)
		}
	}
}

// answerOf is the answer as it goes out.
func answerOf(c *Call) (all []arrival) {
	a := &c.Answer
	reply := oncrpc.AppendAcceptedReply(nil, c.XID)
	part := func(h *Header, pieces []chunk.Piece) {
		b := make([]byte, chunk.Length(pieces))
		reply = reply[copy(b, reply):]
		all = append(all, arrival{msg: append(h.Append(nil), b...)})
	}
	part(a.Header, a.Inline)
	for i := range a.More {
		part(&Header{a.More[i].Header}, a.More[i].Inline)
	}
	all[len(all)-1].inv = Invalidation{Did: a.Invalidate, RKey: a.RKey}
	return all
}

// steps are the things that may happen next, besides what a test does itself.
func (p *pair) steps() (all []func()) {
	// Sends complete in order, and a peer has no answer whose Send was not posted:
	// more of them than there are credits are never without their completions when
	// the next call arrives.
	if len(p.toServer) > 0 && len(p.sending) <= p.s.most {
		all = append(all, func() {
			m := take(&p.toServer, 0)
			if len(p.sRecvs) == 0 {
				p.t.Fatalf("responder has no receive posted")
			}
			p.judges[1].arrives(m.msg, m.inv)
			p.server(p.s.Receive(p.lands(1, m), m.msg, nil))
			p.grown()
		})
	}
	if len(p.toClient) > 0 {
		all = append(all, func() {
			m := take(&p.toClient, 0)
			p.reads.unread += p.refuses(m.msg)
			if len(p.cRecvs) == 0 {
				p.t.Fatalf("requester has no receive posted")
			}
			if p.fenced[m.inv.RKey] { // where a device would end the connection the model goes on
				m.inv = Invalidation{}
			}
			p.judges[0].arrives(m.msg, m.inv)
			p.client(p.c.Receive(p.lands(0, m), m.msg, m.inv, nil))
			p.grown()
		})
	}
	for i := range p.fetching {
		all = append(all, func() { p.fetched(take(&p.fetching, i)) })
	}
	for i := range p.serving {
		all = append(all, func() { p.reply(take(&p.serving, i)) })
	}
	for i := range p.sending {
		all = append(all, func() { p.s.Sent(take(&p.sending, i)) })
	}
	for i := range p.fences {
		all = append(all, func() { p.fence(take(&p.fences, i)) })
	}
	return append(append(all, p.toldSteps()...), p.readSteps()...)
}

// fence invalidates what a call still exposes.
func (p *pair) fence(o *Outgoing) {
	for i := range o.Windows {
		p.fenced[o.Windows[i].RKey] = true
	}
	p.client(p.c.Fenced(o, nil))
}

func take[T any](list *[]T, i int) T {
	v := (*list)[i]
	*list = slices.Delete(slices.Clone(*list), i, i+1)
	return v
}

func (p *pair) fetched(c *Call) {
	var mem [][]byte
	for i, ch := range c.Reads.Chunks {
		b := make([]byte, ch.Length)
		if i == 0 && c.Reads.Long() {
			for _, k := range p.calls {
				if k.out.XID == c.XID {
					copy(b, k.out.message())
				}
			}
		}
		mem = append(mem, b)
	}
	p.judges[1].reads(c.Fetches, mem)
	p.server(p.s.Fetched(c, mem, nil))
}

func (p *pair) reply(c *Call) {
	k := p.calls[c.RPC.Procedure]
	var items []chunk.Item
	for _, n := range k.results {
		items = append(items, chunk.Item{Pos: 24, Len: n})
	}
	p.server(p.s.Reply(c, k.reply, items, nil))
	p.grown()
}

// cut ends the connection; the next begins, and calls are made again.
func (p *pair) cut() {
	p.client(p.c.Lost(errCut, nil))
	p.connect(p.c.LastXID())
	for _, k := range p.calls {
		if k.completed == 0 && !k.begun {
			k.out.Again = k.out.Again || k.out.Sent
			p.call(k)
		}
	}
}

// pairState is what is left when nothing is in progress.
type pairState struct {
	InFlight, Granted   uint32
	Sent, Waiting       int
	Held, Limit         int
	Told                uint32
	ClientRecvs, Served int
	Requester           RequesterCounters
	Calls, Replies      uint64
	Outcomes            string
}

func (p *pair) state() (s pairState) {
	s.InFlight, s.Granted = p.c.spend.InFlight(), p.c.spend.Granted()
	s.Sent, s.Waiting = len(p.c.sent), len(p.c.waiting)+len(p.c.fencing)
	s.Held, s.Limit, s.Told = p.s.grants.Held(), p.s.grants.Limit(), p.s.grants.Told()
	s.ClientRecvs, s.Served = len(p.cRecvs), len(p.sRecvs)
	s.Requester, s.Calls, s.Replies = p.c.Counters, p.s.Counters.Calls, p.s.Counters.Replies
	for _, k := range p.calls {
		s.Outcomes += k.outcome + "; "
	}
	return s
}

// finish lets everything in progress come to its end and checks that it did.
func (p *pair) finish(choose func(n int) int) {
	for all := p.steps(); len(all) > 0; all = p.steps() {
		all[choose(len(all))]()
	}
	for i, k := range p.calls {
		if k.completed != 1 {
			p.t.Fatalf("call %d completed %d times; deadlock? %+v", i, k.completed, p.state())
		}
	}
	s := p.state()
	if s.InFlight != 0 || s.Sent != 0 || s.Waiting != 0 || s.Held != 0 || len(p.s.xids) != 0 {
		p.t.Fatalf("left: %+v", s)
	}
	for _, j := range p.judges {
		if why := j.r.GivenUp(); why != "" {
			p.t.Fatalf("the referee gave up: %s", why)
		}
	}
	if len(p.sRecvs) < s.Limit+credit.Slack {
		p.t.Fatalf("%d receives for %d calls", len(p.sRecvs), s.Limit)
	}
	p.nothingExposed()
}

func first(int) int { return 0 }
