package credit

import "testing"

// ready is a requester with a grant and the receives for it.
func ready(granted uint32) *Spend {
	var s Spend
	s.Start(granted)
	s.Call()
	s.Answer(granted)
	n := s.Want()
	s.Confirm(n, n)
	return &s
}

func TestCanGroup(t *testing.T) {
	s := ready(4)
	for _, tc := range []struct {
		inflight, n   uint32
		can, hopeless bool
	}{
		{0, 1, true, false}, {0, 4, true, false}, {0, 5, false, true},
		{2, 2, true, false}, {2, 3, false, false}, {2, 5, false, true},
		{4, 1, false, false}, {4, 2, false, false},
	} {
		s.CallGroup(tc.inflight)
		if s.CanGroup(tc.n) != tc.can || s.Hopeless(tc.n) != tc.hopeless {
			t.Errorf("%d in flight, %d more: can %v, hopeless %v", tc.inflight, tc.n, s.CanGroup(tc.n), s.Hopeless(tc.n))
		}
		s.ReturnGroup(tc.inflight)
	}
	s.Owe() // a DONE keeps a group back for ever while nothing is in flight
	if s.CanGroup(4) || !s.Hopeless(4) || !s.CanGroup(3) || !s.CanGroup(1) {
		t.Error("with a DONE due")
	}
}

// TestReserve: receives reserved are beyond those for the grant, are there before
// the call may count on them, and go with the answer.
func TestReserve(t *testing.T) {
	s := ready(4)
	posted := s.Posted()
	s.Reserve(3)
	if s.Spare() != 3 || s.Limit() != 1 {
		t.Errorf("%d spare, limit %d before they are posted", s.Spare(), s.Limit())
	}
	n := s.Want()
	if n != 3 || !s.Asked() {
		t.Fatalf("asks for %d", n)
	}
	s.Confirm(n, n-1)
	s.CallGroup(4)
	if s.Asked() || s.Spared() {
		t.Error("spared with one too few")
	}
	if n := s.Want(); n != 1 {
		t.Fatalf("asks for %d more", n)
	}
	s.Confirm(1, 1)
	if !s.Spared() || s.Limit() != 4 {
		t.Errorf("spared %v, limit %d", s.Spared(), s.Limit())
	}
	for range 4 { // the reply
		s.Arrive()
	}
	s.AnswerGroup(4, 4)
	s.Release(3)
	reposted := 0
	for range 4 {
		if s.Repost() {
			reposted++
		}
	}
	if s.InFlight() != 0 || s.Spare() != 0 || reposted != 1 || s.Posted() != posted {
		t.Errorf("%d in flight, %d posted again, %d posted, %d before", s.InFlight(), reposted, s.Posted(), posted)
	}
}

// TestGrantsGroup: a call of several transmissions holds as many credits and
// receives, which come back with its answer or when it is dropped; a lower grant
// counts for all of them.
func TestGrantsGroup(t *testing.T) {
	start := func() *Grants {
		var g Grants
		g.Start(6)
		n := g.Want()
		g.Confirm(n, n)
		for range 4 {
			g.Arrive()
			if err := g.Call(); err != nil {
				t.Fatal(err)
			}
		}
		return &g
	}
	g := start()
	if grant, reposts := g.AnswerGroup(4); grant != 6 || reposts != 4 || g.Held() != 0 || g.Posted() != 6+Slack || g.Limit() != 6 {
		t.Errorf("grants %d, %d posted again, %+v", grant, reposts, *g)
	}
	g = start()
	g.SetTarget(1)
	if grant, reposts := g.AnswerGroup(4); grant != 1 || g.Limit() != 2 || reposts != 0 || g.Posted() != 2+Slack {
		t.Errorf("grants %d, %d posted again, %+v", grant, reposts, *g)
	}
	g = start()
	if g.DropGroup(4); g.Held() != 0 || g.Posted() != 6+Slack {
		t.Errorf("dropped: %+v", *g)
	}
	g = start()
	for range 2 {
		g.Arrive()
		if err := g.Call(); err != nil {
			t.Fatal(err)
		}
	}
	if g.Call() == nil {
		t.Error("more transmissions than credits")
	}
}
