package credit

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// started gives grants with all wanted receives posted.
func started(target int) *Grants {
	var g Grants
	g.Start(target)
	n := g.Want()
	g.Confirm(n, n)
	return &g
}

func TestGrantsStart(t *testing.T) {
	for target, want := range map[int]int{0: 1, 1: 1, 5: 5, Initial: Initial, 64: Initial} {
		g := started(target)
		if g.Limit() != want || g.Posted() != want+Slack || g.Told() != 1 {
			t.Errorf("target %d: %+v", target, *g)
		}
	}
}

// TestGrantsRise: a grant rises only when the receives for it are posted.
func TestGrantsRise(t *testing.T) {
	g := started(64)
	g.Arrive()
	if err := g.Call(); err != nil {
		t.Fatal(err)
	}
	g.SetTarget(64)
	n := g.Want()
	if n != 64-Initial {
		t.Fatalf("wants %d", n)
	}
	if again := g.Want(); again != 0 {
		t.Fatalf("asks %d twice", again)
	}
	grant, reposts := g.AnswerGroup(1)
	if grant != Initial || reposts != 1 {
		t.Errorf("before the receives are posted: %d, %v", grant, reposts)
	}
	g.Arrive()
	if err := g.Call(); err != nil {
		t.Fatal(err)
	}
	g.Confirm(n, n-10)
	if grant, _ = g.AnswerGroup(1); grant != 64-10 {
		t.Errorf("with ten missing: %d", grant)
	}
	if n = g.Want(); n != 10 {
		t.Errorf("wants %d", n)
	}
}

// TestGrantsFall: calls sent under an old grant find their receives.
func TestGrantsFall(t *testing.T) {
	g := started(8)
	for range 8 {
		g.Arrive()
		if err := g.Call(); err != nil {
			t.Fatal(err)
		}
	}
	g.SetTarget(2)
	for i := range 8 {
		grant, reposts := g.AnswerGroup(1)
		if grant != 2 {
			t.Errorf("answer %d grants %d", i, grant)
		}
		if want := i >= 6; (reposts == 1) != want {
			t.Errorf("answer %d: %d reposts", i, reposts)
		}
	}
	if g.Limit() != 2 || g.Posted() != 2+Slack {
		t.Errorf("%+v", *g)
	}
}

func TestGrantsOverrun(t *testing.T) {
	g := started(1)
	g.Arrive()
	if err := g.Call(); err != nil {
		t.Fatal(err)
	}
	g.Arrive()
	if err := g.Call(); !errors.Is(err, ErrOverrun) {
		t.Error(err)
	}
}

// TestGrantsDone: the receive of a DONE goes with it, unless it is wanted for
// calls.
func TestGrantsDone(t *testing.T) {
	g := started(1)
	for _, short := range []bool{false, true} {
		g.Reserve()
		if g.Ready() {
			t.Error("ready without a receive for the DONE")
		}
		if n := g.Want(); n != 1 {
			t.Fatalf("wants %d", n)
		}
		g.Confirm(1, 1)
		if !g.Ready() {
			t.Errorf("not ready: %+v", *g)
		}
		if short {
			g.SetTarget(5)
			n := g.Want()
			g.Confirm(n, 0)
		}
		g.Arrive()
		if repost := g.Done(); repost != short {
			t.Errorf("repost %v, want %v: %+v", repost, short, *g)
		}
	}
}

// grantsModel is a responder with its receives, and a well-behaved peer: it sends
// as many calls as it is granted and sees answers, in order, some time after
// they were sent. It counts for itself what Grants should know.
type grantsModel struct {
	g       *Grants
	target  int
	real    int // receives posted
	held    int // calls received and not answered
	pending int // receives asked for and not posted yet

	granted, inflight int
	calls             int // under way from the peer
	answers           []answerModel
	owed              int // DONEs that the peer will send
	dones             int // DONEs under way from it
	reserved          int // DONEs that may come
}

// answerModel is an answer under way to the peer.
type answerModel struct {
	grant uint32
	read  bool // the peer is to read it and to say DONE
}

// ask has Grants ask for receives, as a caller does after each event, and
// posts some of them, now or later.
func (m *grantsModel) ask(t *rapid.T) {
	if m.pending > 0 {
		return
	}
	n := m.g.Want()
	if most := max(m.g.Limit(), m.target) + Slack + m.reserved; n > 0 && m.real+m.held+n != most {
		t.Fatalf("%d receives more, with %d and %d calls, for %d", n, m.real, m.held, most)
	} else if n == 0 && m.real+m.held < most {
		t.Fatalf("asks for nothing, with %d and %d calls, for %d", m.real, m.held, most)
	}
	m.pending = n
	if rapid.Bool().Draw(t, "at once") {
		m.post(t)
	}
}

// post posts what was asked for, or part of it.
func (m *grantsModel) post(t *rapid.T) {
	if m.pending > 0 {
		n := m.pending
		if rapid.IntRange(0, 3).Draw(t, "scarce") == 0 {
			n = rapid.IntRange(0, n).Draw(t, "posted")
		}
		m.g.Confirm(m.pending, n)
		m.real += n
		m.pending = 0
	}
}

func (m *grantsModel) arrive(t *rapid.T) {
	if m.real == 0 {
		t.Fatal("no receive posted")
	}
	m.real--
	m.g.Arrive()
}

// call takes a call of the peer's.
func (m *grantsModel) call(t *rapid.T) {
	m.calls--
	m.arrive(t)
	if err := m.g.Call(); err != nil {
		t.Fatal(err)
	}
	m.held++
}

func (m *grantsModel) answer(t *rapid.T, read bool) {
	grant, reposts := m.g.AnswerGroup(1)
	if grant == 0 || grant != m.g.Told() {
		t.Fatalf("grants %d, told %d", grant, m.g.Told())
	}
	m.held--
	m.real += reposts
	m.answers = append(m.answers, answerModel{grant, read})
	m.ask(t)
}

// check compares what Grants knows with what is.
func (m *grantsModel) check(t *rapid.T) {
	g := m.g
	switch {
	case g.Posted() != m.real || g.Held() != m.held || g.Dones() != m.reserved:
		t.Fatalf("%d receives, %d calls, %d DONEs: %+v", m.real, m.held, m.reserved, *g)
	case m.real+m.held < g.Limit()+Slack+m.owed+m.dones+m.unread():
		t.Fatalf("promised more than posted: %+v", *g)
	case m.calls+m.held > g.Limit():
		t.Fatalf("%d calls, limit %d", m.calls+m.held, g.Limit())
	case m.calls+m.dones+Slack > m.real:
		t.Fatalf("%d calls and %d DONEs under way, %d receives", m.calls, m.dones, m.real)
	case m.inflight == 0 && m.granted == 0:
		t.Fatal("deadlock")
	}
}

// unread is the number of answers under way that the peer is to read.
func (m *grantsModel) unread() (n int) {
	for _, a := range m.answers {
		if a.read {
			n++
		}
	}
	return n
}

// TestGrantsModel: over random schedules of calls, answers, DONEs, delays,
// settings and memory that is not to be had, no message ever finds no receive,
// no call of a well-behaved peer is an overrun, no grant is 0, nothing deadlocks,
// and Grants knows what is posted.
func TestGrantsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.IntRange(1, 20).Draw(t, "start")
		m := &grantsModel{g: started(target), granted: 1}
		m.target, m.real = m.g.Target(), m.g.Posted()
		need := func(have bool) {
			if !have {
				t.Skip()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				need(m.inflight < m.granted)
				m.inflight++
				m.calls++
			},
			"arrive": func(t *rapid.T) {
				need(m.calls > 0)
				m.call(t)
				m.ask(t)
			},
			"dropped call": func(t *rapid.T) {
				need(m.calls > 0)
				m.call(t)
				m.g.DropGroup(1)
				m.held--
				m.real++ // the caller posts it again
				m.calls++
			},
			"other message": func(t *rapid.T) {
				m.arrive(t)
				m.g.Repost()
				m.real++
			},
			"answer": func(t *rapid.T) {
				need(m.held > 0)
				m.answer(t, false)
			},
			"answer to be read": func(t *rapid.T) {
				need(m.held > 0 && m.reserved < 8 && m.pending == 0)
				m.g.Reserve()
				m.reserved++
				m.ask(t)
				m.post(t)
				ready := m.g.Ready()
				if enough := m.real+m.held >= m.g.Limit()+Slack+m.reserved; ready != enough {
					t.Fatalf("ready %v: %+v", ready, *m.g)
				}
				if !ready {
					m.g.Unreserve()
					m.reserved--
				}
				m.answer(t, ready)
			},
			"see answer": func(t *rapid.T) {
				need(len(m.answers) > 0)
				m.granted = int(m.answers[0].grant)
				if m.answers[0].read {
					m.owed++
				}
				m.answers = m.answers[1:]
				m.inflight--
			},
			"say done": func(t *rapid.T) {
				need(m.owed > 0)
				m.owed--
				m.dones++
			},
			"done": func(t *rapid.T) {
				need(m.dones > 0)
				m.dones--
				m.arrive(t)
				m.reserved--
				if m.g.Done() {
					m.real++
				}
				m.ask(t)
			},
			"posted": m.post,
			"set target": func(t *rapid.T) {
				m.target = rapid.IntRange(1, 30).Draw(t, "target")
				m.g.SetTarget(m.target)
				m.ask(t)
			},
			"": m.check,
		})
	})
}
