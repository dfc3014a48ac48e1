package settings

import (
	"errors"
	"testing"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestImportOfAFile: a section replaces what operators set, and the file and the fleet stay
// beneath. A section that is missing is left alone.
func TestImportOfAFile(t *testing.T) {
	listener, network := scopeOf(t, "listener/nfs"), scopeOf(t, "peer/10.1.0.0/16")
	s, err := initial(t).WithFile(FileLayer{Name: "f", Values: set(live.CreditsMax, 10), Scopes: map[Scope]FileValues{
		listener: {Values: set(live.CreditsWeight, 2, live.CreditsMax, 20)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s = withFleet(t, s, given(t, "global", set(live.InlineSendMax, 2048, live.CreditsBackchannel, 3)))
	s = apply(t, s, "global", set(live.DDPMinChunk, 7))
	s = apply(t, s, "peer/10.1.0.0/16", set(live.CreditsWeight, 5))
	imports := func(values *Values, scopes map[Scope]Values) *State {
		t.Helper()
		next, err := s.Import(values, scopes)
		if err != nil {
			t.Fatal(err)
		}
		if next.Revision() != s.Revision()+1 {
			t.Errorf("revision %d after %d", next.Revision(), s.Revision())
		}
		return next
	}
	check := func(what string, next *State, scope Scope, want Values) {
		t.Helper()
		if got := next.Layer(scope).Values; got != want {
			t.Errorf("%s: %s says %v, want %v", what, scope, got.Text(), want.Text())
		}
	}
	v := set(live.CreditsMax, 11, live.CreditsBackchannel, 4)
	next := imports(&v, nil)
	check("other values", next, Scope{}, v) // no ddp.min_chunk, and inline.send_max is the fleet's
	check("other values", next, network, set(live.CreditsWeight, 5))
	if e := next.At(Scope{}, Target{}); e.Values.Value(live.InlineSendMax) != 2048 || e.Values.Value(live.DDPMinChunk) != 4096 {
		t.Errorf("in force %v", e.Values.Text())
	}
	none := Values{}
	check("no values", imports(&none, nil), Scope{}, set(live.CreditsMax, 64))
	v = set(live.CreditsMax, 10, live.InlineSendMax, 2048, live.CreditsBackchannel, 3)
	check("the same values", imports(&v, nil), Scope{}, none)

	next = imports(nil, map[Scope]Values{listener: set(live.CreditsWeight, 2, live.CreditsMax, 30)})
	check("other scopes", next, Scope{}, set(live.DDPMinChunk, 7))
	check("other scopes", next, network, none)
	check("other scopes", next, listener, set(live.CreditsMax, 30))
	check("no scopes", imports(nil, map[Scope]Values{}), network, none)

	_, err = s.Import(nil, map[Scope]Values{
		listener: set(live.CreditsMin, 21), network: set(live.CreditsMin, 11),
	})
	invalid := new(InvalidError)
	if !errors.As(err, &invalid) || len(invalid.Violations) != 2 {
		t.Fatal(err)
	}
	for _, bad := range invalid.Violations {
		if bad.Set != "listener/nfs" && bad.Set != "peer/10.1.0.0/16" {
			t.Errorf("%+v", bad)
		}
	}
}
