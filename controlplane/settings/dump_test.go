package settings

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// drawFile draws a configuration file's layer. Its global settings alone are right.
func drawFile(t *rapid.T) FileLayer {
	f := FileLayer{Name: "rdmad.yaml"}
	f.Values, f.Lines = drawFileValues(t)
	for range rapid.IntRange(0, 3).Draw(t, "scopes") {
		scope := drawScope(t)
		if scope.Kind != Listener && scope.Kind != Peer {
			continue
		}
		var v FileValues
		if v.Values, v.Lines = drawFileValues(t); v.Values.Keys() == 0 {
			continue
		}
		if f.Scopes == nil {
			f.Scopes = make(map[Scope]FileValues)
		}
		f.Scopes[scope] = v
	}
	return f
}

func drawFileValues(t *rapid.T) (v Values, lines live.ByKey[int]) {
	for _, k := range rapid.SliceOfDistinct(rapid.SampledFrom(available), rapid.ID).Draw(t, "given") {
		switch k {
		case live.InlineSendMax, live.InlineReceiveSize:
			v.Set(k, rapid.SampledFrom([]uint32{1024, 2048, 262144}).Draw(t, "size"))
		case live.DDPMinChunk:
			v.Set(k, rapid.Uint32Range(0, live.DDPMinChunkMax).Draw(t, "chunk"))
		case live.CreditsMax:
			v.Set(k, rapid.Uint32Range(50, 1024).Draw(t, "most"))
		case live.CreditsMin, live.CreditsWeight:
			v.Set(k, rapid.Uint32Range(1, 50).Draw(t, "least"))
		default:
			v.Set(k, rapid.Uint32Range(0, 1).Draw(t, "choice"))
		}
		lines[k] = rapid.IntRange(1, 99).Draw(t, "line")
	}
	return v, lines
}

// drawState draws changes and files, of which those that are refused change
// nothing.
func drawState(t *rapid.T) *State {
	s := initial(t)
	for range rapid.IntRange(0, 15).Draw(t, "steps") {
		var next *State
		var err error
		if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
			next, err = s.WithFile(drawFile(t))
		} else {
			next, err = s.Apply(drawChange(t))
		}
		if err == nil {
			s = next
		}
	}
	return s
}

// lasting is s without the connections'.
func lasting(s *State) *State {
	for _, id := range s.Connections() {
		s = s.Forget(id)
	}
	return s
}

// same says whether two states hold the same at all scopes, with origins.
func same(a, b *State) bool {
	return reflect.DeepEqual(a.Layers(), b.Layers()) && a.file.Equal(&b.file) && a.base == b.base && reflect.DeepEqual(a.peers, b.peers)
}

// TestDumpLoads: a dump loads to the state that it was made of, and to the
// same values in force anywhere else.
func TestDumpLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, other := lasting(drawState(t)), lasting(drawState(t))
		// Another file's values stay in force at scopes that the dump does not name.
		file := other.File()
		file.Scopes = nil
		other = other.withFile(file)
		text, err := json.Marshal(s.Dump())
		if err != nil {
			t.Fatal(err)
		}
		var d Dump
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		back, err := s.Load(&d)
		if err != nil {
			t.Fatal(err)
		}
		if !same(s, back) || back.Revision() != s.Revision()+1 {
			t.Fatalf("%s\nloaded to %+v", text, back.Dump())
		}
		moved, err := other.Load(&d)
		if err != nil {
			t.Fatalf("elsewhere: %v", err)
		}
		for _, target := range targets {
			if got, want := moved.Resolve(target), s.Resolve(target); got != want {
				t.Fatalf("%v has %v, want %v", target, got.Text(), want.Text())
			}
		}
	})
}

// TestLoadOverChangesSince: whatever was set since a dump, it loads to what it
// was made of.
func TestLoadOverChangesSince(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := lasting(drawState(t))
		d, now := s.Dump(), s
		for range rapid.IntRange(0, 10).Draw(t, "more") {
			if next, err := now.Apply(drawChange(t)); err == nil {
				now = next
			}
		}
		back, err := now.Load(&d)
		if err != nil {
			t.Fatal(err)
		}
		if again := back.Dump(); !reflect.DeepEqual(again.Scopes, d.Scopes) || !reflect.DeepEqual(again.Base, d.Base) {
			t.Fatalf("%+v loaded to %+v", d, again)
		}
		if !reflect.DeepEqual(back.Connections(), now.Connections()) && len(back.Connections()) != len(now.Connections()) {
			t.Fatalf("connections %v became %v", now.Connections(), back.Connections())
		}
	})
}

// TestUndo: steps taken back one after another lead through every state that
// there was; restoring what was written down gives the same.
func TestUndo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := initial(t)
		states, steps := []*State{s}, []Step{}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			next, err := s.Apply(drawChange(t))
			if rapid.IntRange(0, 5).Draw(t, "file") == 0 {
				next, err = s.WithFile(drawFile(t))
			}
			if err != nil {
				continue
			}
			steps, states, s = append(steps, s.Diff(next)), append(states, next), next
		}
		alive := func(string) bool { return true }
		for i := len(steps) - 1; i >= 0; i-- {
			s = s.Undo(steps[i], alive)
			if !same(s, states[i]) || len(s.Connections()) != len(states[i].Connections()) {
				t.Fatalf("before revision %d: %+v, want %+v", i+1, s.Dump(), states[i].Dump())
			}
			for _, target := range targets {
				if s.At(Scope{Kind: Connection}, target) != states[i].At(Scope{Kind: Connection}, target) {
					t.Fatalf("%v differs before revision %d", target, i+1)
				}
			}
			restored, err := initial(t).Restore(states[i].Revision(), states[i].File(), states[i].Fleet(), states[i].Layers())
			if err != nil || !same(restored, states[i]) {
				t.Fatalf("restored: %+v, %v", restored, err)
			}
		}
	})
}

// TestUndoSkipsEndedConnections: what is gone stays gone.
func TestUndoSkipsEndedConnections(t *testing.T) {
	s := apply(t, initial(t), "connection/1", set(live.InlineSendMax, 1024))
	next := apply(t, s, "connection/1", set(live.InlineSendMax, 2048))
	if back := next.Undo(s.Diff(next), func(string) bool { return false }); !back.Has(scopeOf(t, "connection/1")) {
		t.Error("the scope of a connection went without its end")
	}
	gone := next.Forget("1")
	if back := gone.Undo(s.Diff(next), func(string) bool { return false }); back.Has(scopeOf(t, "connection/1")) {
		t.Error("the scope of a connection came back after its end")
	}
}

func TestLoadRefuses(t *testing.T) {
	for want, text := range map[string]string{
		`scope: "x" is not one of global, listener/NAME, peer/CIDR and connection/ID`:                   `{"scopes": [{"scope": "x"}]}`,
		"scope: connection/1: a dump has each global, listener and peer scope once and no connection's": `{"scopes": [{"scope": "connection/1"}]}`,
		"scope: global: a dump has each global, listener and peer scope once and no connection's":       `{"scopes": [{"scope": "global"}, {}]}`,
		"inline.max: there is no such setting":                                                          `{"base": {"inline.max": "1"}}`,
		`credits.max: must be a whole number of calls, not "4k"`:                                        `{"base": {"credits.max": "4k"}}`,
		`credits.policy: must be fixed or adaptive, not "on"`:                                           `{"base": {"credits.policy": "on"}}`,
		`extensions.ccp: must be on or off, not "1"`:                                                    `{"base": {"extensions.ccp": "1"}}`,
		"credits.max: must be between 1 and 1024 calls (is 0)":                                          `{"scopes": [{"scope": "global", "values": {"credits.max": "0"}}]}`,
		"credits.min: credits.min 65 (listener/a) would be above credits.max 64 (config)":               `{"scopes": [{"scope": "listener/a", "values": {"credits.min": "65"}}]}`,
	} {
		var d Dump
		err := json.Unmarshal([]byte(text), &d)
		if err == nil {
			_, err = initial(t).Load(&d)
		}
		var invalid *InvalidError
		if !errors.As(err, &invalid) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
