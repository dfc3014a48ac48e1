package siege

import (
	"fmt"
	"maps"
	"slices"
)

// The bounds that must hold under an attack.
const (
	// Latencies during an attack, compared with those before: the largest
	// factor, the most additional milliseconds, and the longest operator's
	// status, in milliseconds.
	worseBy    = 2
	longerBy   = 100.0
	statusTime = 1000.0
	// RSS above 11/10 of limits.memory, in bytes.
	spareRSS = 64 << 20
	// Descriptors that may stay open after the attack.
	spareDescriptors = 32
	// Bytes of log, once and per second.
	logOnce, logPerSecond = 64 << 10, 16 << 10
)

// judge adds a failure for each exceeded bound. The short form does not judge
// latencies, which mean nothing in short phases and on a busy machine.
func (o *Outcome) judge(memory int64, latencies bool) {
	fail := func(format string, args ...any) { o.Failures = append(o.Failures, fmt.Sprintf(format, args...)) }
	for _, ph := range []struct {
		name string
		*Phase
	}{{"before", &o.Before}, {"during", &o.During}, {"after", &o.After}} {
		if ph.Unfinished != "" {
			fail("%s: %s", ph.name, ph.Unfinished)
		}
		for _, name := range clientsOf(ph.Phase) {
			l := ph.Clients[name]
			if l.Errors > 0 {
				fail("%s: %s has %d errors in %d calls, the first: %s", ph.name, name, l.Errors, l.Calls, l.Error)
			}
		}
		if bound := memory/10*11 + spareRSS; ph.RSS > bound {
			fail("%s: RSS of %d MiB, at most %d", ph.name, ph.RSS>>20, bound>>20)
		}
		if bound := int64(logOnce + logPerSecond*ph.Seconds); ph.LogBytes > bound {
			fail("%s: %d bytes logged in %.0f s, at most %d", ph.name, ph.LogBytes, ph.Seconds, bound)
		}
	}
	if o.After.Descriptors > o.Before.Descriptors+spareDescriptors {
		fail("after: %d descriptors, %d before", o.After.Descriptors, o.Before.Descriptors)
	}
	if o.Tally.Opened == 0 {
		fail("the attacker has made no connection")
	}
	for _, b := range o.Tally.Breaches {
		fail("breach: %s", b)
	}
	if latencies {
		o.judgeLatencies(fail)
	}
}

func (o *Outcome) judgeLatencies(fail func(string, ...any)) {
	for _, name := range clientsOf(&o.During) {
		was, is := o.Before.Clients[name], o.During.Clients[name]
		if is.P99 > worseBy*was.P99 || is.P99 >= was.P99+longerBy {
			fail("during: %s has a p99 of %.1f ms, %.1f ms before", name, is.P99, was.P99)
		}
	}
	if l := o.During.Clients["operator"].Longest; l >= statusTime {
		fail("during: the operator's status took up to %.0f ms", l)
	}
}

// clientsOf returns the sorted names of a phase's clients.
func clientsOf(ph *Phase) []string { return slices.Sorted(maps.Keys(ph.Clients)) }
