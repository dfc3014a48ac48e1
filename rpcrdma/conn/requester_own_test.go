package conn

import (
	"errors"
	"testing"
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
		if err := r.Plan(o); err != nil {
			t.Fatal(err)
		}
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
