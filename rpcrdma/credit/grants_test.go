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
	grant, repost := g.Answer()
	if grant != Initial || !repost {
		t.Errorf("before the receives are posted: %d, %v", grant, repost)
	}
	g.Arrive()
	if err := g.Call(); err != nil {
		t.Fatal(err)
	}
	g.Confirm(n, n-10)
	if grant, _ = g.Answer(); grant != 64-10 {
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
		grant, repost := g.Answer()
		if grant != 2 {
			t.Errorf("answer %d grants %d", i, grant)
		}
		if want := i >= 6; repost != want {
			t.Errorf("answer %d: repost %v", i, repost)
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

// requester is a model of a well-behaved peer: it sends as many calls as it
// is granted and sees answers, in order, some time after they were sent.
type requester struct {
	granted, inflight int
	answers           []uint32 // grants under way to it
	calls             int      // under way from it
}

// TestGrantsModel: over random schedules of calls, answers, delays, settings
// and memory that is not to be had, no call ever finds no receive, no call of
// a well-behaved peer is an overrun, no grant is 0 and nothing deadlocks.
func TestGrantsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := started(rapid.IntRange(1, 20).Draw(t, "start"))
		r := requester{granted: 1}
		ask := func() {
			if n := g.Want(); n > 0 {
				g.Confirm(n, rapid.IntRange(0, n).Draw(t, "posted"))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				if r.inflight >= r.granted {
					t.Skip()
				}
				r.inflight++
				r.calls++
			},
			"arrive": func(t *rapid.T) {
				if r.calls == 0 {
					t.Skip()
				}
				r.calls--
				if g.Posted() == 0 {
					t.Fatal("no receive posted")
				}
				g.Arrive()
				if err := g.Call(); err != nil {
					t.Fatal(err)
				}
			},
			"other message": func(t *rapid.T) {
				g.Arrive()
				g.Repost()
			},
			"answer": func(t *rapid.T) {
				if g.Held() == 0 {
					t.Skip()
				}
				before := g.Posted() + g.Held()
				grant, repost := g.Answer()
				if !repost && before-1 != g.Posted()+g.Held() || grant == 0 {
					t.Fatalf("grant %d: %+v", grant, *g)
				}
				ask()
				r.answers = append(r.answers, grant)
			},
			"see answer": func(t *rapid.T) {
				if len(r.answers) == 0 {
					t.Skip()
				}
				r.granted = int(r.answers[0])
				r.answers = r.answers[1:]
				r.inflight--
			},
			"set target": func(t *rapid.T) {
				g.SetTarget(rapid.IntRange(0, 30).Draw(t, "target"))
				ask()
			},
			"": func(t *rapid.T) {
				if g.Posted()+g.Held() < g.Limit()+Slack {
					t.Fatalf("promised more than posted: %+v", *g)
				}
				if r.calls > g.Posted() {
					t.Fatalf("%d calls under way, %d receives", r.calls, g.Posted())
				}
				if r.inflight == 0 && r.granted == 0 {
					t.Fatal("deadlock")
				}
			},
		})
	})
}
