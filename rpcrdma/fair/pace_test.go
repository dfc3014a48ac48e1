package fair

import (
	"testing"
	"time"
)

// TestPace: a holder that others wait for is behind when it gives back less than
// the floor for longer than the grace, and not before; one in nobody's way never is.
func TestPace(t *testing.T) {
	const piece = 1 << 20
	for _, c := range []struct {
		name   string
		rate   uint64 // bytes per second
		piece  uint64 // given back at once
		owed   func(second int) bool
		behind int // the second, 0 is never
	}{
		{"nothing", 0, 1, always, 10},
		{"1 byte per second", 1, 1, always, 10},
		{"60 KB per second in pieces of 1 MiB", 60e3, 1 << 20, always, 10},
		{"the floor in pieces of 1 MiB", Floor, 1 << 20, always, 0},
		{"twice the floor", 2 * Floor, 1 << 20, always, 0},
		{"nothing, in nobody's way", 0, 1, func(int) bool { return false }, 0},
		{"nothing, now and then in the way", 0, 1, func(s int) bool { return s%2 == 0 }, 20},
	} {
		var p Pace
		start, got := time.Unix(1e9, 0), 0
		for s := 0; s < 300 && got == 0; s++ {
			done := uint64(s) * c.rate / c.piece * c.piece
			if p.Step(start.Add(time.Duration(s)*time.Second), done, c.owed(s), piece) {
				got = s
			}
		}
		if got != c.behind {
			t.Errorf("%s: behind after %d s, want %d", c.name, got, c.behind)
		}
	}
}

func always(int) bool { return true }
