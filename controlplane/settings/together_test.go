package settings

import (
	"fmt"
	"testing"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// applies checks what becomes of a change at a scope: the error, or none.
func applies(t *testing.T, s *State, scope string, v Values, want string) *State {
	t.Helper()
	next, err := s.Apply(&Change{Scope: scopeOf(t, scope), Set: v})
	if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
		t.Errorf("%s at %s, want %s", got, scope, want)
	}
	if err != nil {
		return s
	}
	return next
}

// Extensions that version 1 does not have can't be on where version 2 is off,
// at any combination of scopes that a connection can meet.
func TestExtensionsNeedVersion2(t *testing.T) {
	for _, k := range []Key{live.ExtensionCharacteristics, live.ExtensionXmit, live.ExtensionContinuation, live.ExtensionSendDDP} {
		applies(t, initial(t), "global", set(k, 1),
			fmt.Sprintf("%s: %s on (global) needs extensions.v2, which would be off (default)", k, k))
	}
	k := live.ExtensionCharacteristics
	s := applies(t, initial(t), "global", set(k, 1, live.ExtensionV2, int(live.V2On)), "")
	s = applies(t, s, "peer/10.0.0.0/8", set(live.ExtensionV2, int(live.V2Required)), "")
	s = applies(t, s, "listener/a", set(live.ExtensionV2, int(live.V2Off)),
		fmt.Sprintf("extensions.v2: %s on (global) needs extensions.v2, which would be off (listener/a)", k))
	s = applies(t, s, "listener/a", set(live.ExtensionV2, int(live.V2Off), k, 0), "")
	applies(t, s, "global", set(live.ExtensionV2, int(live.V2Off)),
		fmt.Sprintf("extensions.v2: %s on (global) needs extensions.v2, which would be off (global)", k))
	applies(t, s, "listener/a", set(k, 1),
		fmt.Sprintf("%s: %s on (listener/a) needs extensions.v2, which would be off (listener/a)", k, k))
}

// Extensions that are built on others can't be on without them; continuation and
// send_ddp are independent of each other.
func TestExtensionsNeedTheirBase(t *testing.T) {
	two := applies(t, initial(t), "global", set(live.ExtensionV2, int(live.V2On)), "")
	characterized := applies(t, two, "global", set(live.ExtensionCharacteristics, 1), "")
	for _, c := range []struct {
		s       *State
		k, base Key
	}{
		{two, live.ExtensionXmit, live.ExtensionCharacteristics},
		{characterized, live.ExtensionContinuation, live.ExtensionXmit},
		{characterized, live.ExtensionSendDDP, live.ExtensionXmit},
	} {
		why := fmt.Sprintf("%s on (global) needs %s, which would be off", c.k, c.base)
		applies(t, c.s, "global", set(c.k, 1), c.k.String()+": "+why+" (default)")
		on := applies(t, c.s, "global", set(c.base, 1, c.k, 1), "")
		applies(t, on, "listener/a", set(c.base, 0), c.base.String()+": "+why+" (listener/a)")
		applies(t, on, "listener/a", set(c.base, 0, c.k, 0), "")
	}
}

// TestTheSameViolationEachTime: of several violations, the first one in the order of scopes is named. A configuration
// file that waits for other settings is reloaded when the reason is another one.
func TestTheSameViolationEachTime(t *testing.T) {
	narrow, own := initial(t), initial(t)
	for _, scope := range []string{"peer/10.0.0.0/8", "peer/192.0.2.0/24", "listener/a", "listener/b"} {
		narrow = applies(t, narrow, scope, set(live.CreditsMin, 20), "")
	}
	for _, id := range []string{"1", "2", "3", "4"} {
		next, err := own.Apply(&Change{Scope: scopeOf(t, "connection/"+id), Target: Target{ID: id}, Set: set(live.CreditsMin, 20)})
		if err != nil {
			t.Fatal(err)
		}
		own = next
	}
	for range 100 {
		const why = "credits.max: credits.min 20 (%s) would be above credits.max 10 (global)"
		applies(t, narrow, "global", set(live.CreditsMax, 10), fmt.Sprintf(why, "peer/10.0.0.0/8"))
		applies(t, own, "global", set(live.CreditsMax, 10), fmt.Sprintf(why, "connection/1"))
	}
}
