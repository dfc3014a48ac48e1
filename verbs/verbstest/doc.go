// Package verbstest is one conformance suite for every verbs provider, and
// the helpers that it is made of.
//
// A provider's test calls Run with a Target and Main from TestMain. Tests of
// layers above the verbs use NewPair for two connected queue pairs.
//
// Nothing here sleeps or asserts how long something takes: what must happen
// is waited for, for Patience at most, and what must not happen is ruled out
// by something that the contract says comes after it.
package verbstest

import (
	"context"
	"time"
)

// Patience bounds every wait for something that has to happen, on a machine
// that is emulated by a busy one as well.
const Patience = 2 * time.Minute

// TB is what the helpers need of a test; *testing.T, *testing.B and *rapid.T
// have it.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
}
