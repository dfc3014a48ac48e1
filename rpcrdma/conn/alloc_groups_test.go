package conn

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// groupLoop is a requester and a responder that make calls and replies of two
// transmissions with one another, and reuse everything.
type groupLoop struct {
	t          testing.TB
	q          *Requester
	s          *Responder
	o          *Outgoing
	qActs      []Action
	sActs      []Action
	fenced     []Action
	qRecv      uint32
	qHas, sHas []uint32 // receives posted
	qFree      []uint32 // indexes without a receive
	request    [][]byte
	reply      [][]byte
	items      []chunk.Item
	call       *Call
}

func newGroupLoop(t testing.TB) *groupLoop {
	set := continuing()
	l := &groupLoop{t: t, o: &Outgoing{StreamLen: 6200, MaxReply: 6200, Results: []int{8192}}, items: []chunk.Item{{Pos: 6000, Len: 8192}}}
	l.q = NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 100, Version: 2, Settings: &set})
	l.s = NewResponder(ResponderConfig{PeerReceive: 4096, ToldSend: 4096, PeerInvalidates: true, MaxTransfer: 1 << 30, MaxReceives: 100, Receive: 4096, Settings: &set})
	told := valuesOf(&set, 4096)
	l.q.Heard(&told, nil)
	l.q.Connected(4096, 4096)
	l.requester(l.q.Start(nil))
	l.q.spend.Call() // the first grant is known
	l.q.spend.Answer(set.CreditsMax)
	l.requester(l.q.wantReceives(nil))
	l.responder(l.s.Start(nil))
	for range 3 {
		l.request = append(l.request, make([]byte, 0, 4096))
		l.reply = append(l.reply, make([]byte, 0, 4096))
	}
	return l
}

func (l *groupLoop) requester(acts []Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case PostReceives:
			for range a.N {
				at := l.qRecv
				if n := len(l.qFree); n > 0 {
					at, l.qFree = l.qFree[n-1], l.qFree[:n-1]
				} else {
					l.qRecv++
				}
				l.qHas = append(l.qHas, at)
			}
			l.q.Posted(a.N, a.N, nil)
		case Repost:
			l.qHas = append(l.qHas, a.Recv)
		case FreeReceive:
			l.qFree = append(l.qFree, a.Recv)
		case Fence:
			l.fenced = l.q.Fenced(a.Out, l.fenced[:0])
		case Fail:
			l.t.Fatal(a.Err)
		}
	}
}

func (l *groupLoop) responder(acts []Action) {
	for i := 0; i < len(acts); i++ {
		a := acts[i]
		switch a := a.(type) {
		case PostReceives:
			for range a.N {
				l.sHas = append(l.sHas, uint32(len(l.sHas)))
			}
			l.s.Posted(a.N, a.N)
		case Repost:
			l.sHas = append(l.sHas, a.Recv)
		case Deliver:
			acts = l.s.Reply(a.Call, 6000, l.items, acts)
		case Send:
			l.call = a.Call
		case Fail:
			l.t.Fatal(a.Err)
		}
	}
	l.sActs = acts[:0]
}

// once makes a call.
func (l *groupLoop) once() {
	must(l.t, l.q.Plan(l.o))
	l.qActs = l.q.Prepare(l.o, l.qActs[:0])
	l.requester(l.qActs)
	if now, err := l.q.Begin(l.o); !now || err != nil {
		l.t.Fatal(now, err)
	}
	l.qActs, _ = l.q.Launch(l.o, l.qActs[:0])
	l.o.Build()
	msg := oncrpc.AppendCall(l.o.Header.Append(l.request[0][:0]), &oncrpc.Call{XID: l.o.XID, Program: 1, Version: 1})
	l.deliver(msg[:l.o.Header.Size()+l.o.First])
	for i := range l.o.More {
		m := &l.o.More[i]
		b := m.Header.Append(l.request[i+1][:0])
		l.deliver(b[:len(b)+m.Length])
	}
	a := &l.call.Answer
	msg = oncrpc.AppendAcceptedReply(a.Header.Append(l.reply[0][:0]), l.o.XID)
	l.answer(msg[:a.Header.Size()+chunk.Length(a.Inline)])
	for i := range a.More {
		b := a.More[i].Header.Append(l.reply[i+1][:0])
		l.answer(b[:len(b)+a.More[i].Length])
	}
	l.s.Sent(l.call)
	if l.o.Err != nil || len(l.o.More) != 1 || l.o.Written[0] != 8192 {
		l.t.Fatalf("%v, %d more, %v written", l.o.Err, len(l.o.More), l.o.Written)
	}
}

func (l *groupLoop) deliver(msg []byte) {
	recv := l.sHas[0]
	l.sHas = append(l.sHas[:0], l.sHas[1:]...)
	l.responder(l.s.Receive(recv, msg, l.sActs[:0]))
}

func (l *groupLoop) answer(msg []byte) {
	recv := l.qHas[0]
	l.qHas = append(l.qHas[:0], l.qHas[1:]...)
	l.qActs = l.q.Receive(recv, msg, Invalidation{}, l.qActs[:0])
	l.requester(l.qActs)
}

// TestGroupsDoNotAllocate: nor do messages of several transmissions, with a
// result by RDMA.
func TestGroupsDoNotAllocate(t *testing.T) {
	l := newGroupLoop(t)
	for range 100 {
		l.once()
	}
	if n := testing.AllocsPerRun(100, l.once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGroups(b *testing.B) {
	l := newGroupLoop(b)
	b.ReportAllocs()
	for b.Loop() {
		l.once()
	}
}
