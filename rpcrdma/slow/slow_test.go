package slow

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestTimeline: the times of a call add up, whatever moments were missed or seen out of order.
func TestTimeline(t *testing.T) {
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		at   map[Moment]int
		want Call
	}{
		"all": {
			map[Moment]int{Reading: 1, Delivered: 3, Started: 7, Served: 15, Posted: 31, Completed: 63},
			Call{Took: 63 * ms, Receive: 5 * ms, Read: 2 * ms, Service: 8 * ms, Post: 16 * ms, Completion: 32 * ms},
		},
		"no chunks":     {map[Moment]int{Delivered: 0, Started: 1, Served: 3, Posted: 7, Completed: 15}, Call{Took: 15 * ms, Receive: 1 * ms, Service: 2 * ms, Post: 4 * ms, Completion: 8 * ms}},
		"several parts": {map[Moment]int{Delivered: 4, Started: 5, Served: 7, Posted: 9, Completed: 10}, Call{Took: 10 * ms, Receive: 5 * ms, Service: 2 * ms, Post: 2 * ms, Completion: 1 * ms}},
		"not served":    {map[Moment]int{Reading: 1, Completed: 4}, Call{Took: 4 * ms, Receive: 1 * ms, Completion: 3 * ms}},
		"out of order":  {map[Moment]int{Reading: 3, Delivered: 2, Started: 4, Served: 6, Posted: 8, Completed: 7}, Call{Took: 8 * ms, Receive: 4 * ms, Service: 2 * ms, Post: 2 * ms}},
	} {
		var line Timeline
		line.Begin(begin)
		for m, n := range tc.at {
			line.Note(m, at(n))
			line.Note(m, at(n+100)) // the first counts
		}
		tc.want.Arrived = begin
		if got := line.end(); got != tc.want || line.running() {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestNobodyAsks: without a limit, or without somebody to report to, nothing is measured.
func TestNobodyAsks(t *testing.T) {
	limit := new(atomic.Int64)
	limit.Store(1)
	for name, calls := range map[string]Calls{
		"zero":           {},
		"without limit":  {Report: func(Call) { t.Error("reported without a limit") }},
		"without report": {Limit: limit},
	} {
		line := calls.Begin(nil, time.Now())
		calls.End(line, time.Now().Add(time.Second), false)
		if calls.On() || line != nil {
			t.Errorf("%s: measured", name)
		}
	}
}
