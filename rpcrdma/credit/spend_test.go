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

// spendModel is a requester with its receives, and the messages between it and a
// responder that posts exactly what it grants. It counts for itself what Spend
// should know.
type spendModel struct {
	s        *Spend
	max      uint32
	real     uint32 // receives posted
	granted  uint32
	inflight uint32
	dones    uint32 // due, or not known to have arrived
}

// ask has Spend ask for receives, as a caller does after each event, and posts
// them, or some of them.
func (m *spendModel) ask(t *rapid.T) {
	n, want := m.s.Want(), min(m.granted, max(m.max, 1))+Slack
	switch {
	case n > 0 && m.real+n != want:
		t.Fatalf("%d receives more, with %d, for %d", n, m.real, want)
	case n == 0 && m.real < want:
		t.Fatalf("asks for nothing, with %d, for %d", m.real, want)
	case n > 0:
		got := n
		if rapid.IntRange(0, 3).Draw(t, "scarce") == 0 {
			got = uint32(rapid.IntRange(0, int(n)).Draw(t, "posted"))
		}
		m.s.Confirm(n, got)
		m.real += got
	}
}

func (m *spendModel) arrive() {
	m.real--
	m.s.Arrive()
}

func (m *spendModel) repost() {
	if m.s.Repost() {
		m.real++
	}
}

func (m *spendModel) check(t *rapid.T) {
	s := m.s
	switch limit := min(m.granted, max(m.max, 1)); {
	case s.posted != m.real || s.InFlight() != m.inflight || s.dones != m.dones || s.Granted() != m.granted:
		t.Fatalf("%+v: %+v", *m, *s)
	case m.real < m.inflight+Slack:
		t.Fatalf("%d receives for %d calls", m.real, m.inflight)
	case m.inflight == 0 && !s.Can():
		t.Fatalf("deadlock: %+v", *s)
	case s.Can() && m.inflight > 0 && m.inflight+m.dones >= limit:
		t.Fatalf("%d calls and %d DONEs, %d allowed", m.inflight, m.dones, limit)
	case !s.Can() && m.inflight+m.dones < limit && m.real >= limit+Slack:
		t.Fatalf("stands still: %+v", *s)
	}
}

// TestSpendModel: calls never exceed what was granted when they are sent, nor
// the receives posted for their answers; DONEs count until they are known to
// have arrived, and never keep the only call back.
func TestSpendModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := uint32(rapid.IntRange(0, 20).Draw(t, "max"))
		m := &spendModel{s: spending(most), max: most, granted: 1}
		m.real = m.s.posted
		call := func(t *rapid.T) {
			if !m.s.Can() {
				t.Skip()
			}
			m.s.Call()
			m.inflight++
		}
		answer := func(t *rapid.T, read bool) {
			if m.inflight == 0 {
				t.Skip()
			}
			g := uint32(rapid.IntRange(0, 30).Draw(t, "grant"))
			m.granted = max(g, 1)
			m.arrive()
			m.s.Answer(g)
			m.inflight--
			if read {
				m.s.Owe()
				m.dones++
			}
			m.repost()
			m.ask(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"call": call,
			"calls": func(t *rapid.T) {
				for m.s.Can() {
					call(t)
				}
			},
			"answer":            func(t *rapid.T) { answer(t, false) },
			"answer to be read": func(t *rapid.T) { answer(t, true) },
			"dones arrived": func(t *rapid.T) {
				n := uint32(rapid.IntRange(0, int(m.dones)).Draw(t, "dones"))
				m.s.DonesArrived(n)
				m.dones -= n
			},
			"stray": func(t *rapid.T) {
				m.arrive()
				m.repost()
			},
			"set max": func(t *rapid.T) {
				m.max = uint32(rapid.IntRange(0, 30).Draw(t, "max"))
				m.s.SetMax(m.max)
				m.ask(t)
			},
			"": m.check,
		})
	})
}
