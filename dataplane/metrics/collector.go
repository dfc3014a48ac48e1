// Package metrics exports the data plane's metrics to Prometheus. Series are per listener
// and not per connection, so their number depends on the configuration and not on the
// peers. Counters are read only when scraped.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/histogram"
)

// New makes a collector over the statistics of listeners.
func New(stats func() []*dataplane.ListenerStats) prometheus.Collector {
	return newCollector(listenerSeries, func(visit func(string, *dataplane.ListenerStats)) {
		for _, s := range stats() {
			visit(s.Name, s)
		}
	}, collectListener, infoDesc, versionDesc, refusedDesc, evictedDesc, queueDesc, timeDesc, callSizeDesc, replySizeDesc)
}

var (
	listenerLabels = []string{"listener"}

	infoDesc = define(isGauge, "rdmad_listener_info",
		"A listener, by provider, address and service.", "listener", "provider", "address", "service")
	versionDesc = define(isGauge, "rdmad_connections_by_version",
		"RPC-over-RDMA connections that are up, by the protocol version agreed on; none is before the first call.", "listener", "rpc_version")
	refusedDesc = define(isCounter, "rdmad_connections_refused_total",
		"Connections that were refused or failed while being made, by reason.", "listener", "reason")
	evictedDesc = define(isCounter, "rdmad_connections_evicted_total",
		"Connections that were closed for being idle, or for another that needed the place, by reason.", "listener", "reason")
	queueDesc = define(isHistogram, "rdmad_rpc_queue_seconds",
		"Time a call waited before its service started.", listenerLabels...)
	timeDesc = define(isHistogram, "rdmad_rpc_service_seconds",
		"Time a call spent in its service.", listenerLabels...)
	callSizeDesc = define(isHistogram, "rdmad_rpc_call_bytes",
		"Size of a call's arguments, items moved by RDMA included.", listenerLabels...)
	replySizeDesc = define(isHistogram, "rdmad_rpc_reply_bytes",
		"Size of an RPC reply, items moved by RDMA included.", listenerLabels...)
)

// versionNames are the values of rpc_version.
var versionNames = [...]string{"none", "1", "2"}

// listenerSeries are the series of a listener with one number each.
var listenerSeries = named("rdmad_", "listener", []series[dataplane.ListenerStats]{
	gauge("connections", "RPC-over-RDMA connections that are up.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Connections) }),
	gauge("connections_limit", "Most RPC-over-RDMA connections that a listener may have: its own limit or that of all listeners together.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.MaxConnections) }),
	gauge("connections_shared_limit", "Most RPC-over-RDMA connections that all listeners may have together.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.SharedConnections) }),
	counter("connections_accepted_total", "Connections that came up.",
		func(s *dataplane.ListenerStats) uint64 { return s.Accepted }),
	counter("rpc_calls_total", "RPC calls received.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Calls }),
	counter("rpc_replies_total", "RPC replies sent.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Replies }),
	counter("rpc_failed_total", "RPC calls that the service answered with an RPC error.",
		func(s *dataplane.ListenerStats) uint64 { return s.Failed }),
	counter("rpc_reverse_calls_total", "RPC calls sent to clients.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.ReverseCalls }),
	counter("rdma_reads_total", "RDMA Reads made.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.RDMAReads }),
	counter("rdma_writes_total", "RDMA Writes made.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.RDMAWrites }),
	counter("sends_total", "Sends made, those with invalidate included.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Sends }),
	counter("sends_with_invalidate_total", "Sends that invalidated a tag of the peer.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.SendsWithInvalidate }),
	counter("receives_total", "Sends received.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Receives }),
	counter("round_trips_total", "Changes of direction on which calls waited, halved.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.RoundTrips }),
	counter("slow_calls_total", "RPC calls over a listener that took as long as slow_call, or longer.",
		func(s *dataplane.ListenerStats) uint64 { return s.SlowCalls }),
	counter("errors_total", "Protocol errors by peers and transport errors.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Errors }),
	counter("disconnects_total", "Connections that peers ended while calls of theirs were being served.",
		func(s *dataplane.ListenerStats) uint64 { return s.Disconnects }),
	counter("replies_too_long_total", "Replies larger than what the client offered for them; it got ERR_CHUNK.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.RepliesTooLong }),
	counter("messages_dropped_total", "Messages too short to be answered.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Dropped }),
	counter("messages_ignored_total", "Messages that called for no answer.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Ignored }),
	counter("duplicate_calls_total", "Calls dropped because their XID was in progress.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Duplicates }),
	counter("received_bytes_total", "Bytes received by Send and RDMA Read.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.BytesReceived }),
	counter("sent_bytes_total", "Bytes sent by Send and RDMA Write.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.BytesSent }),
	gauge("credits_granted", "Calls that all peers together may have in flight.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Credits) }),
	gauge("rpc_calls_in_flight", "Calls that the service has not answered yet. Divided by rdmad_credits_granted, the use of credits.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.InFlight) }),
	gauge("receive_sizes_remembered", "Peers whose smallest receive size is remembered, so that no larger Sends are announced to them.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Receivers) }),
	gauge("connections_send_held", "Connections that get smaller Sends than inline.send_max, as their peers may have smaller receives.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.SendHeld) }),
	gauge("rpc_queue_delay_seconds", "Smoothed time before a call's service starts, which adaptive grants follow.",
		func(s *dataplane.ListenerStats) float64 { return s.QueueDelay.Seconds() }),
	gauge("memory_limit_bytes", "Registered memory that a listener may have now, of the budget of all.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Memory.Limit) }),
	gauge("memory_registered_bytes", "Registered memory that a listener has.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Memory.Registered) }),
	gauge("memory_taken_bytes", "Registered memory in use, in receives, replies and data.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Memory.Taken) }),
})

// collectListener collects histograms and series with more labels than the listener.
func collectListener(to sink, name string, s *dataplane.ListenerStats) {
	to.gauge(infoDesc, 1, name, s.Provider, s.Address.String(), s.Service)
	for v, n := range s.Versions {
		to.gauge(versionDesc, float64(n), name, versionNames[v])
	}
	reasons[dataplane.Refusal](to, refusedDesc, s.Refusals[:], name)
	reasons[connlimit.Reason](to, evictedDesc, s.Evictions[:], name)
	to <- histogram.NewMetric(queueDesc, histogram.Seconds, &s.QueueTime, name)
	to <- histogram.NewMetric(timeDesc, histogram.Seconds, &s.ServiceTime, name)
	to <- histogram.NewMetric(callSizeDesc, histogram.Bytes, &s.CallSize, name)
	to <- histogram.NewMetric(replySizeDesc, histogram.Bytes, &s.ReplySize, name)
}
