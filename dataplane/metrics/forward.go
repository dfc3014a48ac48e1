package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/forward"
)

// NewForward makes a collector over the services that forward: stats gives
// their counters by service.
func NewForward(stats func() map[string]forward.Stats) prometheus.Collector {
	return forwardCollector(stats)
}

type forwardCollector func() map[string]forward.Stats

func forwardDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("rdmad_forward_"+name, help, serviceLabels, nil)
}

// forwardSeries are those of a service that forwards.
var forwardSeries = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	get  func(*forward.Stats) uint64
}{
	{forwardDesc("connections", "Connections to the upstream that are up."),
		prometheus.GaugeValue, func(s *forward.Stats) uint64 { return uint64(max(s.Connections, 0)) }},
	{forwardDesc("dials_total", "Connections to the upstream that were tried."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Dials }},
	{forwardDesc("dial_failures_total", "Connections to the upstream that failed."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.DialFailures }},
	{forwardDesc("held_off_total", "Clients rejected without trying the upstream, as it had just failed."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.HeldOff }},
	{forwardDesc("connections_lost_total", "Connections that the upstream ended, or lost for what it did."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Lost }},
	{forwardDesc("calls_total", "RPC calls sent to the upstream."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Calls }},
	{forwardDesc("replies_total", "RPC replies of the upstream to them."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Replies }},
	{forwardDesc("calls_refused_total", "RPC calls not sent, as their arguments were reduced wrongly."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Refused }},
	{forwardDesc("call_timeouts_total", "RPC calls that the upstream did not answer in time."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Timeouts }},
	{forwardDesc("bad_replies_total", "RPC replies that are not what their program's protocol says."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.BadReplies }},
	{forwardDesc("stray_replies_total", "RPC replies to no call: late, twice or made up."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Strays }},
	{forwardDesc("callbacks_total", "RPC calls of the upstream to clients."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Callbacks }},
	{forwardDesc("callbacks_refused_total", "RPC calls of the upstream that no client answered."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.CallbacksRefused }},
	{forwardDesc("placed_total", "Results put from the upstream straight into memory that RDMA sends."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Placed }},
	{forwardDesc("placed_bytes_total", "Bytes of these."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.PlacedBytes }},
	{forwardDesc("unpooled_total", "Of these, those for which there was no registered memory in time."),
		prometheus.CounterValue, func(s *forward.Stats) uint64 { return s.Unpooled }},
}

// Describe implements prometheus.Collector.
func (forwardCollector) Describe(ch chan<- *prometheus.Desc) {
	for i := range forwardSeries {
		ch <- forwardSeries[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c forwardCollector) Collect(ch chan<- prometheus.Metric) {
	for service, s := range c() {
		for i := range forwardSeries {
			ch <- prometheus.MustNewConstMetric(forwardSeries[i].desc, forwardSeries[i].kind, float64(forwardSeries[i].get(&s)), service)
		}
	}
}
