package settings

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// given is a layer of the fleet that gives values at scopes, by policy p@1.
func given(t tester, pairs ...any) FleetLayer {
	t.Helper()
	f := FleetLayer{Cluster: 7, Assignment: 40, Scopes: make(map[Scope]FleetValues)}
	for i := 0; i < len(pairs); i += 2 {
		v := FleetValues{Values: pairs[i+1].(Values)}
		for _, k := range v.Values.Keys().Keys() {
			v.Policies[k] = "p@1"
		}
		f.Scopes[scopeOf(t, pairs[i].(string))] = v
	}
	return f
}

func withFleet(t tester, s *State, f FleetLayer) *State {
	t.Helper()
	next, err := s.WithFleet(f)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Within a scope the operator's value wins over the fleet's, and the fleet's over the file's. A
// narrower scope wins over a wider one, whoever gives it.
func TestFleetStandsBetweenFileAndPins(t *testing.T) {
	s := initial(t)
	s, err := s.WithFile(FileLayer{Name: "f", Values: set(live.CreditsMax, 10), Scopes: map[Scope]FileValues{
		scopeOf(t, "listener/nfs"):     {Values: set(live.CreditsMax, 20)},
		scopeOf(t, "peer/10.1.0.0/16"): {Values: set(live.DDPMinChunk, 20)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	check := func(k Key, want uint32, source string) {
		t.Helper()
		if e := s.At(Scope{Kind: Connection}, peer); e.Values.Value(k) != want || e.Origins[k].Source != source {
			t.Errorf("%s is %d of %+v, want %d of %s", k, e.Values.Value(k), e.Origins[k], want, source)
		}
	}
	s = withFleet(t, s, given(t, "global", set(live.CreditsMax, 11, live.InlineSendMax, 2048)))
	check(live.CreditsMax, 20, "config") // at a narrower scope
	check(live.InlineSendMax, 2048, "fleet")
	s = withFleet(t, s, given(t, "global", set(live.CreditsMax, 11), "listener/nfs", set(live.CreditsMax, 21), "peer/10.1.0.0/16", set(live.DDPMinChunk, 21)))
	check(live.CreditsMax, 21, "fleet")
	check(live.DDPMinChunk, 21, "fleet")
	check(live.InlineSendMax, 4096, "default")
	if got := s.At(Scope{Kind: Connection}, peer).Origins[live.CreditsMax]; got.Detail != "p@1" || got.Scope.String() != "listener/nfs" {
		t.Errorf("%+v", got)
	}
	s = apply(t, s, "listener/nfs", set(live.CreditsMax, 22))
	s = apply(t, s, "peer/10.1.0.0/16", set(live.DDPMinChunk, 22))
	check(live.CreditsMax, 22, "listener/nfs")
	check(live.DDPMinChunk, 22, "peer/10.1.0.0/16")
	want := []string{"listener/nfs: credits.max is 22, policy p@1 gives 21", "peer/10.1.0.0/16: ddp.min_chunk is 22, policy p@1 gives 21"}
	pins := s.Pins()
	if len(pins) != 2 || pins[0].String() != want[0] || pins[1].String() != want[1] {
		t.Errorf("pins %v", pins)
	}
	s = apply(t, s, "listener/nfs", set(live.CreditsMax, 21))
	if pins = s.Pins(); len(pins) != 1 {
		t.Errorf("an operator's value that is the fleet's is no pin: %v", pins)
	}
	s = withFleet(t, s, FleetLayer{})
	check(live.DDPMinChunk, 22, "peer/10.1.0.0/16")
}

func TestFleetIsCheckedWhole(t *testing.T) {
	s := apply(t, initial(t), "listener/nfs", set(live.CreditsMin, 30))
	for name, f := range map[string]FleetLayer{
		"range":      given(t, "global", set(live.CreditsMax, 0)),
		"connection": given(t, "connection/1", set(live.CreditsMax, 40)),
		"together":   given(t, "global", set(live.CreditsMax, 29, live.DDPMinChunk, 9)),
	} {
		var invalid *InvalidError
		if next, err := s.WithFleet(f); !errors.As(err, &invalid) || next != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := s.WithFleet(given(t, "global", set(live.CreditsMax, 29)))
	if want := "credits.max: credits.min 30 (listener/nfs) would be above credits.max 29 (fleet)"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	many := FleetLayer{Scopes: make(map[Scope]FleetValues)}
	for i := range MaxScopes {
		many.Scopes[Scope{Kind: Listener, Name: string(rune('A' + i))}] = FleetValues{Values: set(live.CreditsMax, 40)}
	}
	if _, err := s.WithFleet(many); !errors.As(err, new(*LimitError)) {
		t.Error(err)
	}
}

// A rollback leaves what the fleet gives, and a state that is restored has it.
func TestFleetSurvivesUndoAndRestore(t *testing.T) {
	before := apply(t, initial(t), "global", set(live.DDPMinChunk, 1))
	next := withFleet(t, before, given(t, "global", set(live.CreditsMax, 11)))
	step := before.Diff(next)
	if _, after := step.Texts(); after != "fleet global:credits.max=11" {
		t.Errorf("%q", after)
	}
	back := next.Undo(step, func(string) bool { return true })
	if v := back.Resolve(peer); v.Value(live.CreditsMax) != 11 {
		t.Errorf("undone: %v", v.Text())
	}
	restored, err := initial(t).Restore(next.Revision(), next.File(), next.Fleet(), next.Layers())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := next.At(Scope{Kind: Connection}, peer), restored.At(Scope{Kind: Connection}, peer); a != b {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// An export that is imported makes no pins of what the fleet gives.
func TestImportLeavesTheFleets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := initial(t)
		for range 3 {
			if next, err := s.Apply(drawChange(t)); err == nil {
				s = next
			}
		}
		f := given(t, "global", set(live.CreditsMax, 70), "listener/a", set(live.DDPMinChunk, 5), "peer/10.1.0.0/16", set(live.CreditsMax, 80))
		s, err := s.WithFleet(f)
		if err != nil {
			return
		}
		d := s.Dump()
		next, err := s.Load(&d)
		if err != nil {
			t.Fatal(err)
		}
		for scope := range f.Scopes {
			if s.Layer(scope).Values != next.Layer(scope).Values {
				t.Fatalf("%s: %v became %v", scope, s.Layer(scope), next.Layer(scope))
			}
		}
		for _, target := range targets {
			if a, b := s.Resolve(Target{Listener: target.Listener, Peer: target.Peer}), next.Resolve(Target{Listener: target.Listener, Peer: target.Peer}); a != b {
				t.Fatalf("%v: %v became %v", target, a.Text(), b.Text())
			}
		}
	})
}

// TestImportOverTheFleets: an imported value is in force over one of the fleet, even if it is the
// default or what the configuration file gives.
func TestImportOverTheFleets(t *testing.T) {
	s := withFleet(t, initial(t), given(t, "global", set(live.CreditsMax, 11, live.DDPMinChunk, 5)))
	exported := Dump{Base: set(live.CreditsMax, 64, live.DDPMinChunk, 5)} // as rdmactl makes it of a file
	for _, before := range []*State{s, apply(t, s, "global", set(live.CreditsMax, 64))} {
		next, err := before.Load(&exported)
		if err != nil {
			t.Fatal(err)
		}
		if got := next.Layer(Scope{}).Values; got != set(live.CreditsMax, 64) {
			t.Errorf("operators give %v", got.Text())
		}
	}
}
