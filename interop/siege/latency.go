package siege

import (
	"slices"
	"time"
)

// Latencies summarizes the calls of one client in one phase. A call's latency
// begins when the call was due, not when the client made it. Otherwise a client
// that was held up for a second would have no slow call.
type Latencies struct {
	Calls  int    `json:"calls"`
	Errors int    `json:"errors"`
	Error  string `json:"error,omitempty"` // the first
	// The latencies are in milliseconds.
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Longest float64 `json:"longest_ms"`
}

// summarize returns the Latencies of a phase.
func summarize(latencies []time.Duration, errs []error) Latencies {
	l := Latencies{Calls: len(latencies), Errors: len(errs)}
	if len(errs) > 0 {
		l.Error = errs[0].Error()
	}
	if len(latencies) == 0 {
		return l
	}
	slices.Sort(latencies)
	at := func(percent int) float64 {
		return float64(latencies[(len(latencies)-1)*percent/100]) / float64(time.Millisecond)
	}
	l.P50, l.P99, l.Longest = at(50), at(99), at(100)
	return l
}
