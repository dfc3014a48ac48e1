package conn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// groupRequester is a requester of version 2 with continuation on that knows
// its peer's limits, and receives posted. Sizes are those of placing tests.
func groupRequester(t *testing.T, credits uint32, cfg RequesterConfig) *Requester {
	t.Helper()
	s := placingSettings()
	s.Extensions &^= settings.ExtSendDDP
	s.CreditsMax = credits
	cfg.Receive, cfg.ToldSend, cfg.Version, cfg.Settings = placedReceive, placedReceive, rpcrdma2.Version, s
	r := NewRequester(cfg)
	post(r, r.Start(nil))
	r.Connected(placedReceive, placedReceive)
	r.chars.Told, r.chars.Known = r.chars.Own, r.chars.Own
	r.chars.Peer = characteristics.Supported
	r.spend.AnswerGroup(0, credits)
	post(r, r.wantReceives(nil))
	return r
}

// attempts plans a call until it goes out or fails, as a transport does. change,
// if not nil, happens before each plan and, with planned, before its launch.
func attempts(t *testing.T, r *Requester, o *Outgoing, change func(planned bool)) (n int, err error) {
	t.Helper()
	if change == nil {
		change = func(bool) {}
	}
	for {
		if n++; n > 10*maxPlans {
			t.Fatalf("%d plans and no end", n)
		}
		change(false)
		if err := r.Plan(o); err != nil {
			return n, err
		}
		post(r, r.Prepare(o, nil))
		now, err := r.Begin(o)
		switch {
		case errors.Is(err, ErrReplan):
			continue
		case err != nil || !now:
			t.Fatal(now, err)
		}
		change(true)
		if _, sent := r.Launch(o, nil); sent {
			return n, nil
		}
		if !errors.Is(o.Err, ErrReplan) {
			t.Fatal(o.Err)
		}
	}
}

// TestLimitsOfNone: a peer with a limit of 0 transmissions takes no group, in
// either direction of the messages; calls go out by RDMA, or fail where there is
// none.
func TestLimitsOfNone(t *testing.T) {
	for _, limits := range [][2]uint32{{0, 8}, {8, 0}, {0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}, {1 << 31, ^uint32(0)}} {
		for _, reverse := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d and %d, reverse %v", limits[0], limits[1], reverse), func(t *testing.T) {
				r := groupRequester(t, 8, RequesterConfig{MaxReceives: 200, Reverse: reverse})
				r.chars.Told.RequestReceive, r.chars.Told.ResponseSend = limits[0], limits[1]
				o := &Outgoing{StreamLen: 2 * placedReceive, MaxReply: 24}
				n, err := attempts(t, r, o, nil)
				group := min(limits[0], limits[1]) > 2
				if (reverse && !group) != errors.Is(err, ErrCallTooLong) || n != 1 || (err == nil && o.transmitted != group) {
					t.Errorf("after %d plans: %v, in transmissions %v", n, err, o.transmitted)
				}
				if r.spend.InFlight() > 0 {
					r.spend.AnswerGroup(o.uses, 8)
				}
				o = &Outgoing{StreamLen: 40, MaxReply: 24}
				if n, err := attempts(t, r, o, nil); err != nil || n != 1 {
					t.Errorf("a short call: %v after %d plans", err, n)
				}
			})
		}
	}
}

// TestPlansAreBounded: a call whose limits change after each plan fails after
// maxPlans of them. When only those of transmissions change, it goes without.
func TestPlansAreBounded(t *testing.T) {
	r := groupRequester(t, 8, RequesterConfig{MaxReceives: 200})
	o := &Outgoing{StreamLen: 2 * placedReceive, MaxReply: 24}
	n, err := attempts(t, r, o, func(planned bool) {
		if r.chars.Told.ResponseSend = transmission.Limit; planned && o.transmitted {
			r.chars.Told.ResponseSend = 0
		}
	})
	if err != nil || n > maxPlans || o.transmitted {
		t.Errorf("%d plans, in transmissions %v: %v", n, o.transmitted, err)
	}
	o = &Outgoing{StreamLen: 3000, MaxReply: 24}
	flap := func(planned bool) {
		if r.chars.Told.ReceiveSize = placedReceive; planned {
			r.chars.Told.ReceiveSize = settings.InlineMin
		}
	}
	for range 2 { // the count is each call's own
		if n, err := attempts(t, r, o, flap); !errors.Is(err, ErrUnsettled) || n != maxPlans+1 {
			t.Errorf("%d plans: %v", n, err)
		}
	}
	if n, err := attempts(t, r, o, nil); n != 1 || err != nil {
		t.Errorf("the same storage, another call: %v after %d plans", err, n)
	}
}

// TestSpareStarved: a call waits, and its reply takes receives. When credits.max
// rises to all that the queue pair holds, or there is no memory for them, it is
// planned anew in place of waiting for what never comes.
func TestSpareStarved(t *testing.T) {
	for name, c := range map[string]struct {
		credits uint32
		memory  bool
	}{"credits take the queue": {1000, true}, "no memory": {1, false}} {
		t.Run(name, func(t *testing.T) {
			r := groupRequester(t, 1, RequesterConfig{MaxReceives: 200})
			first := &Outgoing{StreamLen: 60, MaxReply: 100}
			long := &Outgoing{StreamLen: 60, MaxReply: 60000}
			if err := r.Plan(long); err != nil || !long.transmitted {
				t.Fatal(err, long.transmitted)
			}
			if _, err := attempts(t, r, first, nil); err != nil {
				t.Fatal(err)
			}
			asked := 0
			post := func(acts []Action) {
				for i := 0; i < len(acts); i++ {
					a, is := acts[i].(PostReceives)
					if !is {
						continue
					}
					if asked++; asked > 100 {
						t.Fatal("asks for receives without end")
					}
					n := a.N
					if !c.memory {
						n = 0
					}
					acts = append(acts, r.Posted(a.N, n, nil)...)
				}
			}
			if now, err := r.Begin(long); now || err != nil {
				t.Fatal(now, err)
			}
			s := r.settings
			s.CreditsMax = c.credits
			post(r.SetSettings(&s, nil))
			msg := plainMessage(first.XID, rpcrdma2.Reply, oncrpc.AppendAcceptedReply(nil, first.XID))
			msg[11] = 255 // a grant
			post(r.Receive(1, msg, Invalidation{}, nil))
			if !errors.Is(long.Err, ErrReplan) || len(r.waiting) != 0 || long.spare != 0 {
				t.Errorf("%v, %d calls wait, %d receives reserved", long.Err, len(r.waiting), long.spare)
			}
			if n, err := attempts(t, r, long, nil); err != nil || n > 2 {
				t.Errorf("%v after %d plans more", err, n)
			}
		})
	}
}

// TestReverseExposesNothing: a call to the client whose reply may be longer than
// what transmissions hold is not made, as there is no chunk to offer for it.
func TestReverseExposesNothing(t *testing.T) {
	r := groupRequester(t, 8, RequesterConfig{MaxReceives: 200, Reverse: true})
	for _, long := range []Outgoing{{StreamLen: 40, MaxReply: 100000}, {StreamLen: 2 * placedReceive, MaxReply: 100000}, {StreamLen: 100000, MaxReply: 24}} {
		if n, err := attempts(t, r, &long, nil); !errors.Is(err, ErrCallTooLong) || n != 1 {
			t.Errorf("%d bytes, a reply of %d: %v after %d plans, windows %v", long.StreamLen, long.MaxReply, err, n, long.Windows)
		}
	}
}
