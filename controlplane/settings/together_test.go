package settings

import (
	"fmt"
	"testing"
)

// Extensions that version 1 does not have can't be on where version 2 is off,
// at any combination of scopes that a connection can meet.
func TestExtensionsNeedVersion2(t *testing.T) {
	all := []Key{ExtensionCharacteristics, ExtensionXmit, ExtensionContinuation, ExtensionSendDDP}
	for _, k := range all { // whether they are built is another matter
		defer func(missing string) { keys[k].missing = missing }(keys[k].missing)
		keys[k].missing = ""
	}
	for _, k := range all {
		check := func(s *State, scope string, v Values, want string) *State {
			t.Helper()
			next, err := s.Apply(&Change{Scope: scopeOf(t, scope), Set: v})
			if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
				t.Errorf("%s at %s: %s, want %s", k, scope, got, want)
			}
			if err != nil {
				return s
			}
			return next
		}
		s := check(initial(t), "global", set(k, 1),
			fmt.Sprintf("%s: %s on (global) needs version 2, and extensions.v2 would be off (default)", k, k))
		s = check(s, "global", set(k, 0), "")
		s = check(s, "global", set(k, 1, ExtensionV2, int(V2On)), "")
		s = check(s, "peer/10.0.0.0/8", set(ExtensionV2, int(V2Required)), "")
		s = check(s, "listener/a", set(ExtensionV2, int(V2Off)),
			fmt.Sprintf("extensions.v2: %s on (global) needs version 2, and extensions.v2 would be off (listener/a)", k))
		s = check(s, "listener/a", set(ExtensionV2, int(V2Off), k, 0), "")
		check(s, "global", set(ExtensionV2, int(V2Off)),
			fmt.Sprintf("extensions.v2: %s on (global) needs version 2, and extensions.v2 would be off (global)", k))
		check(s, "listener/a", set(k, 1),
			fmt.Sprintf("%s: %s on (listener/a) needs version 2, and extensions.v2 would be off (listener/a)", k, k))
	}
}
