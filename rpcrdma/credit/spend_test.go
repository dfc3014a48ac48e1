package credit

import (
	"testing"

	"pgregory.net/rapid"
)

func spending(most uint32) *Spend {
	var s Spend
	s.Start(most)
	n := s.Want()
	s.Confirm(n, n)
	return &s
}

func TestSpendStartsAtOne(t *testing.T) {
	s := spending(64)
	if !s.Can() || s.Limit() != 1 {
		t.Fatalf("%+v", *s)
	}
	s.Call()
	if s.Can() {
		t.Error("a second call before the first reply")
	}
}

func TestSpendGrants(t *testing.T) {
	for grant, want := range map[uint32]uint32{0: 1, 1: 1, 64: 64, 10000: 128} {
		s := spending(128)
		s.Call()
		s.Arrive()
		s.Answer(grant)
		if !s.Repost() {
			t.Error("the only receive is not posted again")
		}
		n := s.Want()
		s.Confirm(n, n)
		if s.Limit() != want {
			t.Errorf("grant %d: limit %d, want %d", grant, s.Limit(), want)
		}
	}
}

// TestSpendModel: calls never exceed what was granted when they are sent, nor
// the receives posted for their answers.
func TestSpendModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spending(uint32(rapid.IntRange(0, 20).Draw(t, "max")))
		ask := func() {
			if n := s.Want(); n > 0 {
				s.Confirm(n, uint32(rapid.IntRange(0, int(n)).Draw(t, "posted")))
			}
		}
		granted := uint32(1)
		t.Repeat(map[string]func(*rapid.T){
			"call": func(t *rapid.T) {
				if !s.Can() {
					t.Skip()
				}
				s.Call()
				if s.InFlight() > granted {
					t.Fatalf("%d in flight, %d granted", s.InFlight(), granted)
				}
			},
			"call not sent after all": func(t *rapid.T) {
				if !s.Can() {
					t.Skip()
				}
				s.Call()
				s.Return()
			},
			"answer": func(t *rapid.T) {
				if s.InFlight() == 0 {
					t.Skip()
				}
				g := uint32(rapid.IntRange(0, 30).Draw(t, "grant"))
				granted = max(g, 1)
				s.Arrive()
				s.Answer(g)
				s.Repost()
				ask()
			},
			"stray": func(t *rapid.T) {
				s.Arrive()
				s.Repost()
			},
			"set max": func(t *rapid.T) {
				s.SetMax(uint32(rapid.IntRange(0, 30).Draw(t, "max")))
				ask()
			},
			"": func(t *rapid.T) {
				if s.posted < s.InFlight()+Slack {
					t.Fatalf("%d receives for %d calls", s.posted, s.InFlight())
				}
				if s.InFlight() == 0 && !s.Can() {
					t.Fatalf("deadlock: %+v", *s)
				}
			},
		})
	})
}
