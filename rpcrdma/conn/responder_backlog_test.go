package conn

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// unsent is a responder that posts all its answers, and whose Sends never complete.
type unsent struct {
	r    *Responder
	xid  uint32
	err  error // why the connection ended
	held []*Call
}

func (u *unsent) do(acts []Action) {
	for _, a := range acts {
		switch a := a.(type) {
		case PostReceives:
			u.r.Posted(a.N, a.N)
		case Deliver:
			u.held = append(u.held, a.Call)
		case Fail:
			u.err = a.Err
		}
	}
}

// calls takes n calls, then answers them.
func (u *unsent) calls(n int) {
	for range n {
		u.xid++
		h := rpcrdma1.Header{XID: u.xid, Version: 1, Credits: 64}
		u.do(u.r.Receive(1, oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: u.xid}), nil))
	}
	for _, c := range u.held {
		u.do(u.r.Reply(c, 24, nil, nil))
	}
	u.held = u.held[:0]
}

// TestBacklog: a peer that makes calls and takes no answers loses its connection. A
// peer that has received all answers before their Sends complete here keeps it, also
// when it was granted fewer credits meanwhile.
func TestBacklog(t *testing.T) {
	const most = 64
	s := settings.Default()
	s.CreditsMax = most
	u := unsent{r: NewResponder(ResponderConfig{PeerReceive: 4096, ToldSend: 4096, MaxReceives: 200, Receive: 4096, Settings: &s})}
	u.do(u.r.Start(nil))
	u.calls(1)
	u.calls(most)
	s.CreditsMax = 1
	u.do(u.r.SetSettings(&s, nil))
	u.calls(most - 1) // each answer grants one credit less
	if n := u.r.grants.Limit(); n != 1 || u.err != nil {
		t.Fatalf("%d granted, %v", n, u.err)
	}
	n := 0
	for ; u.err == nil; n++ {
		u.calls(1)
	}
	if !errors.Is(u.err, ErrBacklog) || n != backlogSpare+1 {
		t.Errorf("%d calls more: %v", n, u.err)
	}
}

// TestCompletionsLast: calls go on while completions of Sends come as late as a device
// may deliver them.
func TestCompletionsLast(t *testing.T) {
	s := settings.Default()
	s.CreditsMax = 2
	p := newPair(t, s, s)
	for range 200 {
		p.call(&pairCall{out: &Outgoing{StreamLen: 40}, reply: 24})
	}
	p.finish(first)
}
