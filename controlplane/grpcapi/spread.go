package grpcapi

import (
	"math"
	"sync/atomic"
	"time"
)

// spread gives streams that begin together first samples at different times. Otherwise all of
// them would take every sample at the same moment, and calls would wait for the processors
// until they are done.
type spread struct{ streams atomic.Uint64 }

// first is the time to the first sample of the next stream: a quarter of the interval to the
// whole. Multiples of the golden ratio keep any number of streams evenly apart.
func (s *spread) first(interval time.Duration) time.Duration {
	_, part := math.Modf(float64(s.streams.Add(1)) * math.Phi)
	return interval/4 + time.Duration(part*0.75*float64(interval))
}
