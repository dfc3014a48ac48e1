package procmem

import (
	"slices"
	"testing"
	"time"
)

// TestRest: a process that has worked collects once, when it has been at rest for some
// periods. One that works on does not collect, nor does one that does next to nothing.
func TestRest(t *testing.T) {
	const busy, calm, idle = period, atRest, 0
	for name, c := range map[string]struct {
		uses []time.Duration // in each period
		at   []int           // periods in which it collects
	}{
		"works":               {[]time.Duration{busy, busy, busy, busy, busy, busy}, nil},
		"rests after work":    {[]time.Duration{busy, idle, idle, idle, idle, idle, idle, idle, idle, idle}, []int{3}},
		"works again":         {[]time.Duration{busy, idle, idle, busy, calm, calm, calm, calm, idle}, []int{6}},
		"rests twice":         {[]time.Duration{busy, idle, idle, idle, busy, idle, idle, idle, idle}, []int{3, 7}},
		"just started":        {[]time.Duration{calm / 2, idle, idle, idle, idle, idle, idle, idle}, nil},
		"works a little":      {[]time.Duration{calm, calm, calm, calm, calm, calm, calm, calm, calm, calm}, []int{2, 5, 8}},
		"a little over that":  {[]time.Duration{calm + 1, calm + 1, calm + 1, calm + 1, calm + 1, calm + 1}, nil},
		"next to nothing":     {slices.Repeat([]time.Duration{worked / 100}, 99), nil},
		"the clock is unread": {make([]time.Duration, 20), nil},
	} {
		var r rest
		var used time.Duration
		var at []int
		for i, n := range c.uses {
			used += n
			if r.due(used) {
				at = append(at, i)
			}
		}
		if !slices.Equal(at, c.at) {
			t.Errorf("%s: collects in %v, want %v", name, at, c.at)
		}
	}
}

// TestProcessorTime: processor time is that of this process, and grows with work.
func TestProcessorTime(t *testing.T) {
	before := processorTime()
	for processorTime() == before {
	}
	if before < 0 || processorTime() < before {
		t.Errorf("%v, then %v", before, processorTime())
	}
}
