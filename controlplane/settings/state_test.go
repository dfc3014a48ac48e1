package settings

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// tester is a test, whether a property or a plain one.
type tester interface {
	Helper()
	Fatal(args ...any)
}

// initial is a state with the built-in defaults, of which credits.max is said
// to come from the configuration.
func initial(t tester) *State {
	t.Helper()
	s, err := NewState(live.Of(new(live.Default())), KeySet(0).With(live.CreditsMax))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scopeOf reads a scope that is known to be right.
func scopeOf(t tester, s string) Scope {
	t.Helper()
	scope, err := ParseScope(s)
	if err != nil {
		t.Fatal(err)
	}
	return scope
}

// set makes values of key, value, key, value…
func set(pairs ...any) Values {
	var v Values
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i].(Key), uint32(pairs[i+1].(int)))
	}
	return v
}

// apply makes a change that is known to be right.
func apply(t tester, s *State, scope string, v Values) *State {
	t.Helper()
	next, err := s.Apply(&Change{Scope: scopeOf(t, scope), Set: v})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

var peer = Target{Listener: "nfs", Peer: netip.MustParseAddr("10.1.2.3"), ID: "1"}

func TestNarrowerScopeWins(t *testing.T) {
	s := initial(t)
	// Given in an order that is not that of the scopes.
	for _, step := range []struct {
		scope string
		value int
	}{
		{"peer/10.1.0.0/16", 1604}, {"connection/1", 1605}, {"peer/10.0.0.0/8", 1603}, {"global", 1601}, {"listener/nfs", 1602},
	} {
		s = apply(t, s, step.scope, set(live.InlineSendMax, step.value))
	}
	for _, c := range []struct {
		target Target
		want   uint32
		source string
	}{
		{peer, 1605, "connection/1"},
		{Target{"nfs", peer.Peer, "2"}, 1604, "peer/10.1.0.0/16"},
		{Target{"nfs", netip.MustParseAddr("10.2.0.1"), "3"}, 1603, "peer/10.0.0.0/8"},
		{Target{"other", netip.MustParseAddr("::ffff:10.2.0.1"), "3"}, 1603, "peer/10.0.0.0/8"},
		{Target{"nfs", netip.MustParseAddr("192.0.2.1"), "4"}, 1602, "listener/nfs"},
		{Target{"other", netip.MustParseAddr("2001:db8::1"), "5"}, 1601, "global"},
	} {
		e := s.At(Scope{Kind: Connection}, c.target)
		if got, _ := e.Values.Get(live.InlineSendMax); got != c.want || e.Origins[live.InlineSendMax].Source != c.source {
			t.Errorf("%v: %d from %s, want %d from %s", c.target, got, e.Origins[live.InlineSendMax].Source, c.want, c.source)
		}
		if v := s.Resolve(c.target); v != e.Values {
			t.Errorf("%v: Resolve and Effective differ", c.target)
		}
	}
}

func TestEachKeyIsResolvedAlone(t *testing.T) {
	s := apply(t, initial(t), "peer/10.0.0.0/8", set(live.InlineSendMax, 2048, live.DDPMinChunk, 100))
	s = apply(t, s, "peer/10.1.0.0/16", set(live.InlineSendMax, 1024))
	e := s.At(Scope{Kind: Connection}, peer)
	var got []string
	for _, k := range e.Values.Keys().Keys() {
		got = append(got, fmt.Sprintf("%s=%s %s@%d", k, e.Values.Format(k), e.Origins[k].Source, e.Origins[k].Revision))
	}
	said := map[Key]string{
		live.InlineSendMax: "inline.send_max=1024 peer/10.1.0.0/16@2",
		live.DDPMinChunk:   "ddp.min_chunk=100 peer/10.0.0.0/8@1",
		live.CreditsMax:    "credits.max=64 config@0",
	}
	var want []string
	for k := range live.NumKeys {
		text, ok := said[k]
		if !ok {
			text = fmt.Sprintf("%s=%s default@0", k, k.Row().Format(k.Row().Default))
		}
		want = append(want, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAtLooksFromTheScope(t *testing.T) {
	s := apply(t, initial(t), "listener/nfs", set(live.InlineSendMax, 2048))
	s = apply(t, s, "peer/10.0.0.0/8", set(live.InlineSendMax, 3072))
	s = apply(t, s, "peer/10.1.0.0/16", set(live.DDPMinChunk, 7))
	for scope, want := range map[string]string{
		"global":           "4096 4096",
		"listener/nfs":     "2048 4096",
		"listener/other":   "4096 4096",
		"peer/10.0.0.0/8":  "3072 4096",
		"peer/10.1.0.0/16": "3072 7",
		"peer/10.1.2.3":    "3072 7",
		"peer/10.0.0.0/7":  "4096 4096",
		"peer/::/0":        "4096 4096",
	} {
		e := s.At(scopeOf(t, scope), Target{})
		if got := e.Values.Format(live.InlineSendMax) + " " + e.Values.Format(live.DDPMinChunk); got != want {
			t.Errorf("%s: %s, want %s", scope, got, want)
		}
	}
}

func TestUnsetShowsTheWiderScope(t *testing.T) {
	s := apply(t, initial(t), "global", set(live.InlineSendMax, 2048))
	s = apply(t, s, "connection/1", set(live.InlineSendMax, 1024, live.DDPMinChunk, 9))
	s, err := s.Apply(&Change{Scope: scopeOf(t, "connection/1"), Unset: KeySet(0).With(live.InlineSendMax)})
	if err != nil {
		t.Fatal(err)
	}
	e := s.At(Scope{Kind: Connection}, peer)
	if got := e.Values.Format(live.InlineSendMax); got != "2048" || e.Origins[live.InlineSendMax] != (Origin{Source: "global", Revision: 1}) {
		t.Errorf("inline.send_max %s from %v", got, e.Origins[live.InlineSendMax])
	}
	if got := e.Values.Format(live.DDPMinChunk); got != "9" {
		t.Errorf("ddp.min_chunk %s", got)
	}
	s, err = s.Apply(&Change{Scope: scopeOf(t, "connection/1"), Unset: KeySet(0).With(live.DDPMinChunk)})
	if err != nil || len(s.Connections()) != 0 {
		t.Errorf("an empty scope stays: %v, %v", s.Connections(), err)
	}
}

func TestForget(t *testing.T) {
	before := apply(t, initial(t), "connection/1", set(live.InlineSendMax, 1024))
	after := before.Forget("1")
	if got := after.Resolve(peer); got != initial(t).Resolve(peer) {
		t.Errorf("settings of the connection stay: %v", got)
	}
	if after.Revision() != before.Revision() {
		t.Errorf("the revision moved to %d", after.Revision())
	}
	if after.Forget("1") != after || len(before.Connections()) != 1 {
		t.Error("Forget changes more than it should")
	}
}

func TestRevision(t *testing.T) {
	s := apply(t, initial(t), "global", set(live.DDPMinChunk, 1))
	expected := uint32(1)
	s, err := s.Apply(&Change{Set: set(live.DDPMinChunk, 2), Expected: &expected})
	if err != nil || s.Revision() != 2 {
		t.Fatalf("revision %d, %v", s.Revision(), err)
	}
	_, err = s.Apply(&Change{Set: set(live.DDPMinChunk, 3), Expected: &expected})
	var stale *StaleError
	if !errors.As(err, &stale) || *stale != (StaleError{Expected: 1, Current: 2}) {
		t.Errorf("%v", err)
	}
	s.revision = math.MaxUint32
	_, err = s.Apply(&Change{Set: set(live.DDPMinChunk, 3)})
	var limit *LimitError
	if !errors.As(err, &limit) {
		t.Errorf("after the last revision: %v", err)
	}
}

func TestOverridden(t *testing.T) {
	s := apply(t, initial(t), "connection/1", set(live.DDPMinChunk, 1))
	s = apply(t, s, "peer/10.1.0.0/16", set(live.DDPMinChunk, 2, live.InlineSendMax, 2048))
	for scope, want := range map[string]string{
		"global":          "[inline.send_max: stays 2048, set at peer/10.1.0.0/16 ddp.min_chunk: stays 1, set at connection/1]",
		"peer/10.0.0.0/8": "[inline.send_max: stays 2048, set at peer/10.1.0.0/16 ddp.min_chunk: stays 1, set at connection/1]",
		"peer/10.1.2.3":   "[ddp.min_chunk: stays 1, set at connection/1]",
		"connection/1":    "[]",
	} {
		c := &Change{Scope: scopeOf(t, scope), Set: set(live.DDPMinChunk, 3, live.InlineSendMax, 1024)}
		if got := fmt.Sprint(s.Overridden(c, peer)); got != want {
			t.Errorf("%s: %s, want %s", scope, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	for name, want := range map[string]string{
		"inline":          "inline.send_max, inline.receive_size",
		"inline.send_max": "inline.send_max",
		"inline.send":     "",
		"":                "",
		"credits.m":       "",
	} {
		if got := live.Match(name).String(); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

func TestSettingsRoundTrip(t *testing.T) {
	in := live.Settings{
		InlineSendMax: 1, InlineReceiveSize: 2, DDPMinChunk: 3, RemoteInvalidationAccept: true,
		CreditsPolicy: live.CreditsAdaptive, CreditsMin: 4, CreditsMax: 5, CreditsBackchannel: 6,
	}
	v := live.Of(&in)
	if out := v.Settings(); *out != in {
		t.Errorf("%+v, want %+v", *out, in)
	}
}
