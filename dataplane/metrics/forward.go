package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/forward"
)

// NewForward makes a collector over the services that forward. stats returns their counters
// by service.
func NewForward(stats func() map[string]forward.Stats) prometheus.Collector {
	return newCollector(forwardSeries, ofServices(stats), nil)
}

// forwardSeries are the series of a service that forwards.
var forwardSeries = named("rdmad_forward_", "service", []series[forward.Stats]{
	gauge("connections", "Connections to the upstream that are up.",
		func(s *forward.Stats) float64 { return float64(max(s.Connections, 0)) }),
	counter("dials_total", "Connections to the upstream that were tried.",
		func(s *forward.Stats) uint64 { return s.Dials }),
	counter("dial_failures_total", "Connections to the upstream that failed.",
		func(s *forward.Stats) uint64 { return s.DialFailures }),
	counter("held_off_total", "Clients rejected without trying the upstream, as it had just failed.",
		func(s *forward.Stats) uint64 { return s.HeldOff }),
	counter("connections_lost_total", "Connections that the upstream ended, or that ended because of its errors.",
		func(s *forward.Stats) uint64 { return s.Lost }),
	counter("calls_total", "RPC calls sent to the upstream.",
		func(s *forward.Stats) uint64 { return s.Calls }),
	counter("replies_total", "RPC replies of the upstream to calls.",
		func(s *forward.Stats) uint64 { return s.Replies }),
	counter("calls_refused_total", "RPC calls not sent, as their arguments were reduced wrongly.",
		func(s *forward.Stats) uint64 { return s.Refused }),
	counter("call_timeouts_total", "RPC calls that the upstream did not answer in time.",
		func(s *forward.Stats) uint64 { return s.Timeouts }),
	counter("bad_replies_total", "RPC replies that are not what their program's protocol says.",
		func(s *forward.Stats) uint64 { return s.BadReplies }),
	counter("stray_replies_total", "RPC replies to no call: late, twice or made up.",
		func(s *forward.Stats) uint64 { return s.Strays }),
	counter("callbacks_total", "RPC calls of the upstream to clients.",
		func(s *forward.Stats) uint64 { return s.Callbacks }),
	counter("callbacks_refused_total", "RPC calls of the upstream that no client answered.",
		func(s *forward.Stats) uint64 { return s.CallbacksRefused }),
	counter("placed_total", "Results put from the upstream straight into memory that RDMA sends.",
		func(s *forward.Stats) uint64 { return s.Placed }),
	counter("placed_bytes_total", "Bytes of results put from the upstream straight into memory that RDMA sends.",
		func(s *forward.Stats) uint64 { return s.PlacedBytes }),
	counter("unpooled_total", "Results of the upstream for which there was no registered memory in time, so that they were copied.",
		func(s *forward.Stats) uint64 { return s.Unpooled }),
})
