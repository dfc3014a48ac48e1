package bench

import (
	"math"
	"time"

	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Result is the result of a run. Its JSON names are fixed.
type Result struct {
	Op         Op  `json:"op"`
	Size       int `json:"size"` // bytes of payload per call
	Depth      int `json:"depth"`
	RPCVersion int `json:"rpc_version"`
	// CreditsGranted is the last grant of the server. If it is below Depth, calls wait at our
	// end, and their latencies include that.
	CreditsGranted uint32 `json:"credits_granted"`
	// Ops counts calls with the right answer, Errors all others.
	Ops          uint64  `json:"ops"`
	Errors       uint64  `json:"errors"`
	OpsPerSecond float64 `json:"ops_per_second"`
	// BytesPerSecond counts payload in one direction.
	BytesPerSecond float64 `json:"bytes_per_second"`
	LatencyUS      Latency `json:"latency_us"`
	PerOp          PerOp   `json:"per_op"`

	// Elapsed is the time from the first call to the last answer.
	Elapsed time.Duration `json:"-"`
	// Histogram has the latencies of Ops, in ns.
	Histogram histogram.Snapshot `json:"-"`
	// FirstError is one of Errors, nil without any.
	FirstError error `json:"-"`
	// Lost means that the connection ended before the end of the run.
	Lost bool `json:"-"`
}

// Latency has the latencies of calls, in us. Percentiles are exact to 1/32.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// PerOp has counts divided by calls. Sends, receives, registrations and invalidations are those
// of our side. RDMA Reads and Writes are the peer's, on our memory. Verbs do not report them,
// so these numbers follow from the protocol: the read segments of answered calls, each of which
// the peer must have read, and the segments that replies return with a length. A peer that
// splits a segment makes more of them.
type PerOp struct {
	Sends               float64 `json:"sends"`
	Receives            float64 `json:"receives"`
	RDMAReads           float64 `json:"rdma_reads"`
	RDMAWrites          float64 `json:"rdma_writes"`
	Registrations       float64 `json:"registrations"`
	LocalInvalidations  float64 `json:"local_invalidations"`
	RemoteInvalidations float64 `json:"remote_invalidations"`
	// RoundTrips are the changes of direction on a call's critical path, halved: 1, and 1 more
	// if the peer reads from us before it can answer.
	RoundTrips float64 `json:"round_trips"`
}

// perOp divides what was counted between two moments by calls.
func perOp(before, after *rpcrdma.Stats, calls uint64) PerOp {
	if calls == 0 {
		return PerOp{}
	}
	per := func(get func(*rpcrdma.Stats) uint64) float64 {
		return round(float64(get(after)-get(before)) / float64(calls))
	}
	return PerOp{
		Sends:               per(func(s *rpcrdma.Stats) uint64 { return s.Sends }),
		Receives:            per(func(s *rpcrdma.Stats) uint64 { return s.Receives }),
		RDMAReads:           per(func(s *rpcrdma.Stats) uint64 { return s.PeerReads }),
		RDMAWrites:          per(func(s *rpcrdma.Stats) uint64 { return s.PeerWrites }),
		Registrations:       per(func(s *rpcrdma.Stats) uint64 { return s.Registrations }),
		LocalInvalidations:  per(func(s *rpcrdma.Stats) uint64 { return s.LocalInvalidations }),
		RemoteInvalidations: per(func(s *rpcrdma.Stats) uint64 { return s.RemoteInvalidations }),
		RoundTrips:          per(func(s *rpcrdma.Stats) uint64 { return s.RoundTrips }),
	}
}

// round keeps three decimals.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// Micros returns d in us with three decimals.
func Micros(d time.Duration) float64 { return round(float64(d) / float64(time.Microsecond)) }
