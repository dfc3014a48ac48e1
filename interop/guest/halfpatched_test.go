package guest

import (
	"errors"
	"testing"
)

// TestHalfPatched checks that a kernel is started again if it died while it
// patched itself, and not if it died for another reason.
func TestHalfPatched(t *testing.T) {
	for text, again := range map[string]bool{
		"[    6.142345] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\n":       true,
		"[    6.142345] Oops: general protection fault: 0000 [#1] SMP\n": false,
		"Kernel panic - not syncing: VFS\n":                              false,
	} {
		g := &Guest{console: &console{}}
		if _, err := g.console.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := g.explain(ErrDied); errors.Is(err, errHalfPatched) != again || !errors.Is(err, ErrDied) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
