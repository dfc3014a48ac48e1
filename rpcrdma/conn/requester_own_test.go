package conn

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestOwnRefusedKeepsNothing: a call that is refused because its XID is in use keeps no
// receives for its reply. The caller does not make it, so nothing would give them up.
func TestOwnRefusedKeepsNothing(t *testing.T) {
	r := groupRequester(t, 8, RequesterConfig{MaxReceives: 200})
	first := &Outgoing{StreamLen: 40, MaxReply: 24, Own: true, XID: 50}
	if _, err := attempts(t, r, first, nil); err != nil {
		t.Fatal(err)
	}
	o := &Outgoing{StreamLen: 40, MaxReply: 60000, Own: true, XID: 50}
	for range 10 {
		must(t, r.Plan(o))
		post(r, r.Prepare(o, nil))
		if now, err := r.Begin(o); now || !errors.Is(err, ErrXIDInUse) {
			t.Fatal(now, err)
		}
		if n := r.spend.Spare(); n != 0 {
			t.Fatalf("%d receives reserved for calls that were refused", n)
		}
	}
	if o.XID = 51; r.Plan(o) != nil || !o.transmitted {
		t.Error("no more replies in transmissions")
	}
}

// TestOwnAgain: a call that is made again keeps its XID, also while it waits for a credit.
// A caller that chooses the same XID meanwhile is refused. Otherwise one of the two would
// never be answered.
func TestOwnAgain(t *testing.T) {
	s := settings.Default()
	r := NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 100, FirstXID: 100, Version: 1, Settings: &s})
	r.Connected(4096, 4096)
	post(r, r.Start(nil))
	begin := func(o *Outgoing) (bool, error) {
		t.Helper()
		o.StreamLen, o.MaxReply = 40, 24
		must(t, r.Plan(o))
		return r.Begin(o)
	}
	first := &Outgoing{}
	if now, err := begin(first); !now || err != nil {
		t.Fatal(now, err)
	}
	again := &Outgoing{XID: 50, Again: true}
	if now, err := begin(again); now || err != nil {
		t.Fatal(now, err)
	}
	if now, err := begin(&Outgoing{XID: 50, Own: true}); now || !errors.Is(err, ErrXIDInUse) {
		t.Errorf("the XID of a call that waits: %v, %v", now, err)
	}
	if _, ok := r.Launch(first, nil); !ok {
		t.Fatal("not launched")
	}
	first.Build()
	r.spend.AnswerGroup(1, 8)
	delete(r.sent, first.XID)
	post(r, r.wantReceives(nil))
	r.wake(nil)
	if r.sent[50] != again {
		t.Error("the call that is made again has lost its XID")
	}
}

// TestAgainPassesOwn: a call to the client that is made again and passes a longer one, which
// waits for the first grant, does not take the XID that the longer one will have.
func TestAgainPassesOwn(t *testing.T) {
	r := groupRequester(t, 8, RequesterConfig{MaxReceives: 200, Reverse: true})
	r.spend.Start(8) // no grant is known
	post(r, r.wantReceives(nil))
	long := &Outgoing{StreamLen: 2 * placedReceive, MaxReply: 24, Own: true, XID: 50}
	again := &Outgoing{StreamLen: 40, MaxReply: 24, Again: true, XID: 50}
	for _, o := range []*Outgoing{long, again} {
		must(t, r.Plan(o))
		if now, err := r.Begin(o); now != (o == again) || err != nil {
			t.Fatal(now, err)
		}
	}
	if again.XID == 50 {
		t.Error("took the XID of a call that waits")
	}
}
