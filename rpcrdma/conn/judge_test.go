package conn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// judge is a referee at one end of a connection without I/O. It sees everything that
// this end posts and everything that arrives there. A violation by this end fails the
// test; its peer may do anything.
type judge struct {
	t      fataler
	side   referee.Side
	r      *referee.Referee
	off    bool // the ends have exchanged messages that the referee did not see
	events uint64
	last   [16]seen
}

// seen is an event with its first bytes.
type seen struct {
	referee.Event
	data [120]byte
}

// before holds the last events.
func (j *judge) before() string {
	var b strings.Builder
	for n := max(j.events, uint64(len(j.last))) - uint64(len(j.last)); n < j.events; n++ {
		e := &j.last[n%uint64(len(j.last))]
		fmt.Fprintf(&b, "\n  %d %s: %v, %d bytes, STag %d: %x", e.Frame, e.From, e.Kind, e.Length, e.STag, e.Data)
	}
	return b.String()
}

// newJudge begins a connection with a referee at one end, the server's or the
// client's.
func newJudge(t fataler, server bool) *judge {
	j := &judge{t: t, side: referee.Client}
	cfg := referee.Config{Vantage: referee.FromClient}
	if server {
		j.side, cfg.Vantage = referee.Server, referee.FromServer
	}
	cfg.Report = func(v referee.Violation) {
		if v.By == j.side {
			t.Helper()
			t.Fatalf("%v; before it:%s", v, j.before())
		}
	}
	j.r = referee.New(cfg)
	return j
}

// connect tells the referee the sizes of Sends that both ends announced at connect.
func (j *judge) connect(client, server wire.PrivateData) {
	j.r.Connect(referee.Private{Client: client.Append(nil), Server: server.Append(nil)})
}

func (j *judge) observe(e referee.Event) {
	j.t.Helper()
	if j.off {
		return
	}
	s := &j.last[j.events%uint64(len(j.last))]
	j.events++
	e.Frame = j.events
	s.Event = e
	s.Data = s.data[:copy(s.data[:], e.Data)]
	j.r.Observe(&e)
}

func (j *judge) message(from referee.Side, msg []byte, inv Invalidation) {
	j.t.Helper()
	e := referee.Event{Kind: referee.Send, From: from, Length: len(msg), Data: msg}
	if inv.Did {
		e.Kind, e.STag = referee.SendInvalidate, inv.RKey
	}
	j.observe(e)
}

// sends is called for a Send of this end, arrives for a Send of its peer.
func (j *judge) sends(msg []byte, inv Invalidation) { j.t.Helper(); j.message(j.side, msg, inv) }
func (j *judge) arrives(msg []byte, inv Invalidation) {
	j.t.Helper()
	j.message(j.side.Peer(), msg, inv)
}

// writes is called for the RDMA Writes of an answer.
func (j *judge) writes(all []chunk.Write) {
	j.t.Helper()
	for _, w := range all {
		j.observe(referee.Event{Kind: referee.Write, From: j.side, STag: w.RKey, Offset: w.Addr, Length: w.Length})
	}
}

// reads is called for RDMA Reads that have completed. memory[i] is the contents of
// chunk i; nil if the model does not look at them.
func (j *judge) reads(all []chunk.Read, memory [][]byte) {
	j.t.Helper()
	for _, f := range all {
		j.observe(referee.Event{Kind: referee.Read, From: j.side, STag: f.RKey, Offset: f.Addr, Length: f.Length})
		done := referee.Event{Kind: referee.ReadDone, From: j.side, Length: f.Length}
		if memory != nil {
			done.Data = memory[f.Chunk][f.Off:][:f.Length]
		}
		j.observe(done)
	}
}

// witness notes failures.
type witness struct{ seen []string }

func (*witness) Helper() {}

func (w *witness) Fatalf(format string, args ...any) {
	w.seen = append(w.seen, fmt.Sprintf(format, args...))
}

// TestJudgeSees plants a violation by each end of each model. The referee sees it, and
// no violation before it.
func TestJudgeSees(t *testing.T) {
	reply := oncrpc.AppendAcceptedReply((&rpcrdma1.Header{XID: 4711, Version: 1, Credits: 1}).Append(nil), 4711)
	call := oncrpc.AppendCall((&rpcrdma1.Header{XID: 4711, Version: 1, Credits: 1}).Append(nil), &oncrpc.Call{XID: 4711})
	s := settings.Default()
	for name, plant := range map[string]func(w *witness) (violate func()){
		"pair, requester": func(w *witness) func() {
			p := newPair(w, s, s)
			p.call(&pairCall{out: &Outgoing{StreamLen: 40}, reply: 24})
			p.finish(first)
			return func() {
				p.send(0, arrival{msg: call})
				p.send(0, arrival{msg: call})
			}
		},
		"pair, responder": func(w *witness) func() {
			p := newPair(w, s, s)
			return func() { p.send(1, arrival{msg: reply}) }
		},
		"duplex, client": func(w *witness) func() {
			e := newDuplexEnd(w, false, s)
			return func() { e.send(reply) }
		},
		"duplex, server": func(w *witness) func() {
			e := newDuplexEnd(w, true, s)
			return func() { e.send(reply) }
		},
		"requester": func(w *witness) func() {
			m := requesterModel{judge: newJudge(w, false)}
			return func() { m.judge.sends(reply, Invalidation{}) }
		},
		"responder, of the memory of no call": func(w *witness) func() {
			m := responderModel{judge: newJudge(w, true)}
			m.judge.arrives(call, Invalidation{})
			return func() { m.judge.writes([]chunk.Write{{RKey: 8, Addr: 16, Length: 32}}) }
		},
		"responder, reading the memory of no call": func(w *witness) func() {
			m := responderModel{judge: newJudge(w, true)}
			m.judge.arrives(call, Invalidation{})
			return func() { m.judge.reads([]chunk.Read{{RKey: 8, Addr: 16, Length: 32}}, nil) }
		},
	} {
		w := new(witness)
		violate := plant(w)
		if len(w.seen) > 0 {
			t.Errorf("%s: %v", name, w.seen)
		}
		if violate(); len(w.seen) == 0 {
			t.Errorf("%s: not seen", name)
		}
	}
}
