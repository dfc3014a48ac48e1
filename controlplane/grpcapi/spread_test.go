package grpcapi

import (
	"slices"
	"testing"
	"time"
)

// TestSpread: of streams that begin together no more than a few take their samples within the
// same 20th of an interval, and each has its first one within the interval.
func TestSpread(t *testing.T) {
	const interval = time.Second
	for _, streams := range []int{2, 10, 50, 500} {
		var s spread
		at := make([]time.Duration, streams)
		for i := range at {
			at[i] = s.first(interval)
			if at[i] < interval/4 || at[i] > interval {
				t.Fatalf("%d streams: the first sample after %v", streams, at[i])
			}
		}
		slices.Sort(at)
		most := streams/10 + 1 // even over three quarters of the interval: a 15th
		for i := most; i < streams; i++ {
			if d := at[i] - at[i-most]; d < interval/20 {
				t.Errorf("%d streams: %d take their samples within %v", streams, most+1, d)
			}
		}
	}
}
