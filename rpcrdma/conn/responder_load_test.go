package conn

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// aimed is a responder with the adaptive policy; exchange sends it n calls at
// once, has them answered and gives the last grant.
type aimed struct {
	t        *testing.T
	settings settings.Settings
	r        *Responder
	xid      uint32
	posted   int
}

func newAimed(t *testing.T, least, most uint32) *aimed {
	a := &aimed{t: t, settings: settings.Default()}
	a.settings.CreditsPolicy, a.settings.CreditsMin, a.settings.CreditsMax = settings.CreditsAdaptive, least, most
	a.r = NewResponder(ResponderConfig{
		PeerReceive: 4096, ToldSend: 4096, MaxTransfer: 1 << 30, MaxReceives: settings.CreditsLimit + credit.Slack, Settings: &a.settings,
	})
	a.carryOut(a.r.Start(nil))
	if !a.r.Settle() {
		t.Fatal("no receives")
	}
	return a
}

// carryOut posts all receives that are asked for and gives the calls that are
// delivered.
func (a *aimed) carryOut(acts []Action) (delivered []*Call) {
	a.t.Helper()
	for _, act := range acts {
		switch act := act.(type) {
		case PostReceives:
			a.r.Posted(act.N, act.N)
			a.posted += act.N
		case FreeReceive:
			a.posted--
		case Deliver:
			delivered = append(delivered, act.Call)
		case Send:
			a.r.Sent(act.Call)
		case Fail:
			a.t.Fatal(act.Err)
		}
	}
	return delivered
}

func (a *aimed) exchange(n int) int {
	a.t.Helper()
	var calls []*Call
	for range n {
		a.xid++
		h := rpcrdma1.Header{XID: a.xid, Version: rpcrdma1.Version, Credits: 1, Proc: rpcrdma1.Msg}
		msg := append(h.Append(nil), rpcCall(a.t, map[string][]string{"args": {"0"}}, a.xid)...)
		calls = append(calls, a.carryOut(a.r.Receive(0, msg, nil))...)
	}
	if len(calls) != n {
		a.t.Fatalf("%d of %d calls delivered", len(calls), n)
	}
	for _, c := range calls {
		a.carryOut(a.r.Reply(c, 24, nil, nil))
	}
	return int(a.r.Granted())
}

// TestAim: the next answers grant what was aimed for, with a receive posted for
// each; lowered, the receives go with the answers.
func TestAim(t *testing.T) {
	a := newAimed(t, 2, 64)
	a.r.Aim(32)
	a.exchange(1) // asks for the receives
	if got := a.exchange(1); got != 32 || a.posted < 32+credit.Slack {
		t.Errorf("granted %d with %d receives, want 32", got, a.posted)
	}
	if got := a.exchange(32); got != 32 {
		t.Errorf("granted %d for 32 in flight", got)
	}
	if peak := a.r.TakePeak(); peak != 32 {
		t.Errorf("peak %d, want 32", peak)
	}
	a.r.Aim(5)
	if got := a.exchange(1); got != 5 || a.r.Limit() != 31 {
		t.Errorf("granted %d, limit %d; want 5 and one less than 32", got, a.r.Limit())
	}
	a.exchange(26)
	if a.r.Limit() != 5 || a.posted != 5+credit.Slack {
		t.Errorf("limit %d with %d receives, want 5 and %d", a.r.Limit(), a.posted, 5+credit.Slack)
	}
}

// TestAimBounds: settings bound what is aimed for from the next answer on, and
// the policy fixed does not look at it.
func TestAimBounds(t *testing.T) {
	a := newAimed(t, 4, 16)
	granted := func(change func(*settings.Settings), aim int) int {
		change(&a.settings)
		a.carryOut(a.r.SetSettings(&a.settings, nil))
		a.r.Aim(aim)
		a.exchange(1)
		return a.exchange(1)
	}
	same := func(*settings.Settings) {}
	for _, c := range []struct {
		what      string
		change    func(*settings.Settings)
		aim, want int
	}{
		{"over credits.max", same, 100, 16},
		{"under credits.min", same, 1, 4},
		{"credits.max raised", func(s *settings.Settings) { s.CreditsMax = 40 }, 100, 40},
		{"credits.min raised", func(s *settings.Settings) { s.CreditsMin = 10 }, 1, 10},
		{"policy fixed", func(s *settings.Settings) { s.CreditsPolicy = settings.CreditsFixed }, 12, 40},
		{"policy adaptive again", func(s *settings.Settings) { s.CreditsPolicy = settings.CreditsAdaptive }, 12, 12},
	} {
		if got := granted(c.change, c.aim); got != c.want {
			t.Errorf("%s: granted %d, want %d", c.what, got, c.want)
		}
	}
}
