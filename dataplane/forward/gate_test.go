package forward

import (
	"errors"
	"testing"
	"time"
)

func TestGate(t *testing.T) {
	var g gate
	now := time.Unix(1000, 0)
	no := errors.New("connection refused")
	enter := func(want bool) {
		t.Helper()
		if err := g.enter(now); (err == nil) != want || (!want && !errors.Is(err, no)) {
			t.Errorf("enter: %v, want %v", err, want)
		}
	}
	leave := func(err error, want bool) {
		t.Helper()
		if got := g.leave(now, err); got != want {
			t.Errorf("leave: %v, want %v", got, want)
		}
	}
	for range 3 { // all at once while nothing failed
		enter(true)
	}
	leave(nil, false)
	leave(no, true)
	leave(no, false)
	if g.pause != firstPause {
		t.Errorf("two that failed together: %v", g.pause)
	}
	for want := firstPause; ; want = min(2*want, lastPause) {
		if g.pause != want || g.until.Before(now.Add(want/2)) || !g.until.Before(now.Add(want)) {
			t.Fatalf("pause %v until %v, want %v", g.pause, g.until.Sub(now), want)
		}
		enter(false)
		now = g.until
		enter(true)
		enter(false) // one tries, the others learn that
		if want == lastPause {
			break
		}
		leave(no, false)
	}
	g.abandon()
	enter(true)
	leave(nil, true)
	enter(true)
	enter(true)
	leave(no, true)
	if g.pause != firstPause {
		t.Errorf("the pause begins with %v", g.pause)
	}
	// A dial that began before a failure succeeds in the pause: the next failure is a change again.
	leave(nil, true)
	leave(no, true)
	enter(false)
}
