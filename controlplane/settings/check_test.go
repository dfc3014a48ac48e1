package settings

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		key   Key
		value int
		err   string
	}{
		{live.InlineSendMax, 1024, ""},
		{live.InlineSendMax, 1025, ""},
		{live.InlineSendMax, 262144, ""},
		{live.InlineSendMax, 1023, "inline.send_max: must be between 1024 and 262144 bytes (is 1023)"},
		{live.InlineSendMax, 262145, "inline.send_max: must be between 1024 and 262144 bytes (is 262145)"},
		{live.InlineReceiveSize, 2048, ""},
		{live.InlineReceiveSize, 2000, "inline.receive_size: must be a multiple of 1024 bytes between 1024 and 262144 (is 2000)"},
		{live.DDPMinChunk, 0, ""},
		{live.DDPMinChunk, 1 << 20, ""},
		{live.DDPMinChunk, 1<<20 + 1, "ddp.min_chunk: must be between 0 and 1048576 bytes (is 1048577)"},
		{live.RemoteInvalidationUse, 1, ""},
		{live.RemoteInvalidationUse, 2, "remote_invalidation.use: must be on or off"},
		{live.CreditsMax, 0, "credits.max: must be between 1 and 1024 calls (is 0)"},
		{live.CreditsMax, 1024, ""},
		{live.CreditsMax, 1025, "credits.max: must be between 1 and 1024 calls (is 1025)"},
		{live.CreditsMin, 0, "credits.min: must be between 1 and 1024 calls (is 0)"},
		{live.CreditsPolicy, int(live.CreditsFixed), ""},
		{live.CreditsPolicy, int(live.CreditsAdaptive), ""},
		{live.CreditsWeight, 1, ""},
		{live.CreditsWeight, 101, "credits.weight: must be between 1 and 100 shares (is 101)"},
		{live.ExtensionMSGP, 2, "extensions.msgp: must be on or off"},
		{live.DDPPlacement, int(live.PlaceWritten), ""},
		{live.DDPPlacement, int(live.PlaceBySize), ""},
		{live.DDPPlacement, 4, "ddp.placement: must be exrw, tbsn, choice or bysize"},
		{live.CreditsPolicy, 7, "credits.policy: must be fixed or adaptive"},
		{live.ExtensionV2, int(live.V2Required), ""},
		{live.ExtensionV2, 3, "extensions.v2: must be off, on or required"},
	} {
		_, err := initial(t).Apply(&Change{Set: set(c.key, c.value)})
		if got := fmt.Sprint(err); got != c.err && (err != nil || c.err != "") {
			t.Errorf("%s=%d: %q, want %q", c.key, c.value, got, c.err)
		}
		var invalid *InvalidError
		if err != nil && !errors.As(err, &invalid) {
			t.Errorf("%s=%d: %T", c.key, c.value, err)
		}
	}
}

func TestEveryViolationIsNamed(t *testing.T) {
	_, err := initial(t).Apply(&Change{Set: set(live.InlineSendMax, 1, live.DDPMinChunk, 5, live.CreditsMax, 0)})
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.Violations) != 2 {
		t.Fatalf("%v", err)
	}
	if invalid.Violations[0].Field != "inline.send_max" || invalid.Violations[1].Field != "credits.max" {
		t.Errorf("%v", err)
	}
}

func TestNothingToChange(t *testing.T) {
	for _, c := range []Change{{}, {Set: set(live.DDPMinChunk, 1), Unset: KeySet(0).With(live.DDPMinChunk)}} {
		_, err := initial(t).Apply(&c)
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestInitialValuesAreChecked(t *testing.T) {
	for want, spoil := range map[string]func(*live.Settings){
		"inline.send_max: must be between 1024 and 262144 bytes (is 0)":                func(s *live.Settings) { s.InlineSendMax = 0 },
		"credits.policy: must be fixed or adaptive":                                    func(s *live.Settings) { s.CreditsPolicy = 7 },
		"credits.min: credits.min 65 (default) would be above credits.max 64 (config)": func(s *live.Settings) { s.CreditsMin = 65 },
	} {
		d := live.Default()
		spoil(&d)
		_, err := NewState(live.Of(&d), KeySet(0).With(live.CreditsMax))
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestBoundsHoldInEveryCombination(t *testing.T) {
	type step struct {
		scope string
		v     Values
	}
	for _, c := range []struct {
		name   string
		before []step
		last   step
		err    string
	}{
		{"same scope", nil, step{"global", set(live.CreditsMin, 65)}, "credits.min 65 (global) would be above credits.max 64 (config)"},
		{"both at once", nil, step{"global", set(live.CreditsMin, 65, live.CreditsMax, 65)}, ""},
		{
			"listener below global", []step{{"global", set(live.CreditsMin, 10)}},
			step{"listener/nfs", set(live.CreditsMax, 9)}, "credits.min 10 (global) would be above credits.max 9 (listener/nfs)",
		},
		{
			"global under listener", []step{{"listener/nfs", set(live.CreditsMax, 9)}},
			step{"global", set(live.CreditsMin, 10)}, "credits.min 10 (global) would be above credits.max 9 (listener/nfs)",
		},
		{
			"listener meets peer", []step{{"listener/nfs", set(live.CreditsMin, 10)}},
			step{"peer/10.0.0.0/8", set(live.CreditsMax, 9)}, "credits.min 10 (listener/nfs) would be above credits.max 9 (peer/10.0.0.0/8)",
		},
		{
			"two peers, nested", []step{{"peer/10.0.0.0/8", set(live.CreditsMin, 10)}},
			step{"peer/10.1.0.0/16", set(live.CreditsMax, 9)}, "credits.min 10 (peer/10.0.0.0/8) would be above credits.max 9 (peer/10.1.0.0/16)",
		},
		{
			"two peers, apart", []step{{"peer/10.0.0.0/8", set(live.CreditsMin, 10)}},
			step{"peer/11.0.0.0/8", set(live.CreditsMax, 9)}, "",
		},
		{
			"two listeners", []step{{"listener/a", set(live.CreditsMin, 10)}},
			step{"listener/b", set(live.CreditsMax, 9)}, "",
		},
		{
			"unset", []step{{"global", set(live.CreditsMax, 100)}, {"listener/a", set(live.CreditsMin, 90)}},
			step{"global", Values{}}, "credits.min 90 (listener/a) would be above credits.max 64 (config)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := initial(t)
			for _, b := range c.before {
				s = apply(t, s, b.scope, b.v)
			}
			change := &Change{Scope: scopeOf(t, c.last.scope), Set: c.last.v}
			if c.last.v.Keys() == 0 {
				change.Unset = KeySet(0).With(live.CreditsMax)
			}
			_, err := s.Apply(change)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, want %s", err, c.err)
			}
		})
	}
}

func TestBoundsHoldOnAConnection(t *testing.T) {
	s := apply(t, initial(t), "listener/nfs", set(live.CreditsMin, 10))
	_, err := s.Apply(&Change{Scope: scopeOf(t, "connection/1"), Target: peer, Set: set(live.CreditsMax, 9)})
	if err == nil {
		t.Error("the connection's maximum lies below its listener's minimum")
	}
	other := peer
	other.Listener = "other"
	s, err = s.Apply(&Change{Scope: scopeOf(t, "connection/1"), Target: other, Set: set(live.CreditsMax, 9)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Apply(&Change{Scope: scopeOf(t, "listener/other"), Set: set(live.CreditsMin, 10)}); err == nil {
		t.Error("the listener's minimum rose over its connection's maximum")
	}
}

func TestScopesAreBounded(t *testing.T) {
	s := initial(t)
	for i := range MaxScopes {
		s = apply(t, s, fmt.Sprintf("peer/10.0.%d.%d", i/256, i%256), set(live.CreditsMin, 1+i%64))
	}
	_, err := s.Apply(&Change{Scope: scopeOf(t, "listener/nfs"), Set: set(live.DDPMinChunk, 1)})
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Limit != MaxScopes {
		t.Errorf("%v", err)
	}
	apply(t, s, "peer/10.0.0.0", set(live.DDPMinChunk, 1))
	apply(t, s, "connection/1", set(live.DDPMinChunk, 1))
}
