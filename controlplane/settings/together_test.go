package settings

import (
	"fmt"
	"testing"
)

// buildAll has all extensions be built during a test: whether they are is another
// matter.
func buildAll(t *testing.T) {
	for k := range NumKeys {
		missing := keys[k].missing
		t.Cleanup(func() { keys[k].missing = missing })
		keys[k].missing = ""
	}
}

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
	buildAll(t)
	for _, k := range []Key{ExtensionCharacteristics, ExtensionXmit, ExtensionContinuation, ExtensionSendDDP} {
		applies(t, initial(t), "global", set(k, 1),
			fmt.Sprintf("%s: %s on (global) needs version 2, and extensions.v2 would be off (default)", k, k))
	}
	k := ExtensionCharacteristics
	s := applies(t, initial(t), "global", set(k, 1, ExtensionV2, int(V2On)), "")
	s = applies(t, s, "peer/10.0.0.0/8", set(ExtensionV2, int(V2Required)), "")
	s = applies(t, s, "listener/a", set(ExtensionV2, int(V2Off)),
		fmt.Sprintf("extensions.v2: %s on (global) needs version 2, and extensions.v2 would be off (listener/a)", k))
	s = applies(t, s, "listener/a", set(ExtensionV2, int(V2Off), k, 0), "")
	applies(t, s, "global", set(ExtensionV2, int(V2Off)),
		fmt.Sprintf("extensions.v2: %s on (global) needs version 2, and extensions.v2 would be off (global)", k))
	applies(t, s, "listener/a", set(k, 1),
		fmt.Sprintf("%s: %s on (listener/a) needs version 2, and extensions.v2 would be off (listener/a)", k, k))
}

// Extensions that are built on others can't be on without them; continuation and
// send_ddp are independent of each other.
func TestExtensionsNeedTheirBase(t *testing.T) {
	buildAll(t)
	two := applies(t, initial(t), "global", set(ExtensionV2, int(V2On)), "")
	characterized := applies(t, two, "global", set(ExtensionCharacteristics, 1), "")
	refused := func(k, base Key, where, why string) string {
		return fmt.Sprintf("%s on (%s) needs %s, which %s and would be off", k, where, base, why)
	}
	for _, c := range []struct {
		s       *State
		k, base Key
		why     string
	}{
		{two, ExtensionXmit, ExtensionCharacteristics, "tells whether the peer takes transmissions"},
		{characterized, ExtensionContinuation, ExtensionXmit, "is what messages are continued with"},
		{characterized, ExtensionSendDDP, ExtensionXmit, "is what items are placed with"},
	} {
		why := refused(c.k, c.base, "global", c.why)
		applies(t, c.s, "global", set(c.k, 1), c.k.String()+": "+why+" (default)")
		on := applies(t, c.s, "global", set(c.base, 1, c.k, 1), "")
		applies(t, on, "listener/a", set(c.base, 0), c.base.String()+": "+why+" (listener/a)")
		applies(t, on, "listener/a", set(c.base, 0, c.k, 0), "")
	}
}
