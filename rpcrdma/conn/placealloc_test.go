package conn

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestPlacedDoesNotAllocate: calls and replies with items in target segments, in
// one Send or more, make no garbage at either role.
func TestPlacedDoesNotAllocate(t *testing.T) {
	for name, n := range map[string]int{"one Send": 8192, "more Sends": 30000} {
		t.Run(name, func(t *testing.T) {
			r := placingResponder(t)
			var c oneItem
			c.lay(t, 5, n, func(q *rpcrdma2.XmtReq) {
				q.ReceiveBuffers = 7
				q.Results = []rpcrdma2.ResultSet{{End: 100, Items: []rpcrdma2.ResultItem{{Place: rpcrdma2.TargetBuffer}}}}
			})
			items := []chunk.Item{{Pos: oncrpc.AcceptedReplySize + 4}}
			var acts, more []Action
			serve := func() {
				for i, msg := range c.sends {
					acts = r.Receive(uint32(i), msg, acts[:0])
				}
				items[0].Len = n
				a, delivered := firstOf[Deliver](acts)
				if !delivered || len(a.Call.RPC.Args.Items) != 1 {
					t.Fatal("not delivered")
				}
				more = r.Reply(a.Call, oncrpc.AcceptedReplySize+4, items, more[:0])
				sent, answered := firstOf[Send](more)
				if !answered || sent.Call.Answer.Header.Option != rpcrdma2.OptXmtResp {
					t.Fatal("not answered")
				}
				r.Sent(sent.Call)
			}
			serve()
			if n := testing.AllocsPerRun(100, serve); n != 0 {
				t.Errorf("responder: %v allocations", n)
			}
		})
		t.Run(name+" of a requester", func(t *testing.T) {
			r := placingRequester(t, placingSettings())
			o := &Outgoing{Own: true, XID: 9, StreamLen: 60, MaxReply: 100, Items: []chunk.Item{{Pos: 56, Len: n}}, Results: []int{n}}
			reply := answer(t, 9, rpcrdma2.Item{Place: rpcrdma2.TargetBuffer, Length: uint32(n)}, n)
			var acts []Action
			call := func() {
				if err := r.Plan(o); err != nil || !o.transmitted || !o.xmit.placed {
					t.Fatal(err)
				}
				acts = r.Prepare(o, acts[:0])
				post(r, acts)
				if now, err := r.Begin(o); !now || err != nil {
					t.Fatal(now, err)
				}
				if acts, _ = r.Launch(o, acts[:0]); len(acts) > 0 {
					t.Fatal(o.Err)
				}
				o.Build()
				for i, msg := range reply {
					acts = r.Receive(uint32(i), msg, Invalidation{}, acts[:0])
					post(r, acts)
				}
				if o.Err != nil || o.Written[0] != n {
					t.Fatal(o.Err)
				}
			}
			call()
			if n := testing.AllocsPerRun(100, call); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// post posts all receives that are asked for.
func post(r *Requester, acts []Action) {
	for _, a := range acts {
		if a, is := a.(PostReceives); is {
			r.Posted(a.N, a.N, nil)
		}
	}
}

// postCalls is post for a responder.
func postCalls(r *Responder, acts []Action) {
	for _, a := range acts {
		if a, is := a.(PostReceives); is {
			r.Posted(a.N, a.N)
		}
	}
}
