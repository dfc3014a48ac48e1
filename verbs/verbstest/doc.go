// Package verbstest provides one conformance suite for all verbs providers, and the helpers
// it uses.
//
// A provider's test calls Run with a Target, and Main from TestMain. Tests of higher layers
// use NewPair for two connected queue pairs.
//
// Nothing here sleeps or asserts times. The suite waits for what must happen, at most for
// Patience. It rules out what must not happen by an event that comes after it according to
// the contract.
package verbstest

import (
	"context"
	"time"
)

// Patience limits every wait for something that must happen, even on an emulated machine on
// a busy host.
const Patience = 2 * time.Minute

// TB is the part of a test that the helpers use. *testing.T, *testing.B and *rapid.T
// implement it.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
}
