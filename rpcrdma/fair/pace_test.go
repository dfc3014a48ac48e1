package fair

import (
	"testing"
	"time"
)

// TestPace: a holder that others wait for is behind when it gives back less than the
// floor for longer than the grace, and not before. While nobody waits, a holder is
// never behind.
func TestPace(t *testing.T) {
	const piece = 1 << 20
	for _, c := range []struct {
		name   string
		rate   uint64 // bytes per second
		piece  uint64 // given back at once
		floor  func(second int) int64
		behind int // the second, 0 is never
	}{
		{"nothing", 0, 1, floor, 10},
		{"1 byte per second", 1, 1, floor, 10},
		{"60 KB per second in pieces of 1 MiB", 60e3, 1 << 20, floor, 10},
		{"the floor in pieces of 1 MiB", Floor, 1 << 20, floor, 0},
		{"twice the floor", 2 * Floor, 1 << 20, floor, 0},
		{"nothing, within its share", 0, 1, func(int) int64 { return ShareFloor }, 14},
		{"nothing, in nobody's way", 0, 1, func(int) int64 { return 0 }, 0},
		{"nothing, now and then in the way", 0, 1, func(s int) int64 { return Floor * int64(1-s%2) }, 20},
	} {
		var p Pace
		start, got := time.Unix(1e9, 0), 0
		for s := 0; s < 300 && got == 0; s++ {
			done := uint64(s) * c.rate / c.piece * c.piece
			if p.Step(start.Add(time.Duration(s)*time.Second), done, c.floor(s), piece) {
				got = s
			}
		}
		if got != c.behind {
			t.Errorf("%s: behind after %d s, want %d", c.name, got, c.behind)
		}
	}
}

func floor(int) int64 { return Floor }
