// Package metrics shows the data plane to Prometheus. Series are per listener
// and not per connection: their number follows the configuration, not the
// peers. Counters are read when scraped; nothing runs in between.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/histogram"
)

// Source is the part of the data plane that is scraped.
type Source interface {
	Stats() []*dataplane.ListenerStats
}

// New makes a collector over a source.
func New(s Source) prometheus.Collector { return collector{s} }

type collector struct{ source Source }

var (
	listenerLabels = []string{"listener"}

	infoDesc = prometheus.NewDesc("rdmad_listener_info",
		"A listener, by provider, address and service.", []string{"listener", "provider", "address", "service"}, nil)
	healthyDesc = prometheus.NewDesc("rdmad_listener_healthy",
		"1 while clients can reach a listener, 0 while its device, port or address is gone.", listenerLabels, nil)
	upDesc = prometheus.NewDesc("rdmad_connections",
		"RPC-over-RDMA connections that are up.", listenerLabels, nil)
	versionDesc = prometheus.NewDesc("rdmad_connections_by_version",
		"RPC-over-RDMA connections that are up, by the protocol version agreed on; none is before the first call.", []string{"listener", "rpc_version"}, nil)
	refusedDesc = prometheus.NewDesc("rdmad_connections_refused_total",
		"Connections that were refused or failed while being made, by reason.", []string{"listener", "reason"}, nil)
	evictedDesc = prometheus.NewDesc("rdmad_connections_evicted_total",
		"Connections that were closed for being idle, or for another that needed the place, by reason.", []string{"listener", "reason"}, nil)
	queueDesc = prometheus.NewDesc("rdmad_rpc_queue_seconds",
		"Time a call waited before its service started.", listenerLabels, nil)
	timeDesc = prometheus.NewDesc("rdmad_rpc_service_seconds",
		"Time a call spent in its service.", listenerLabels, nil)
	callSizeDesc = prometheus.NewDesc("rdmad_rpc_call_bytes",
		"Size of a call's arguments, items moved by RDMA included.", listenerLabels, nil)
	replySizeDesc = prometheus.NewDesc("rdmad_rpc_reply_bytes",
		"Size of an RPC reply, items moved by RDMA included.", listenerLabels, nil)
)

// versionNames are the values of rpc_version.
var versionNames = [...]string{"none", "1", "2"}

// counters of a listener.
var counters = []struct {
	desc *prometheus.Desc
	get  func(*dataplane.ListenerStats) uint64
}{
	counter("rdmad_connections_accepted_total", "Connections that came up.",
		func(s *dataplane.ListenerStats) uint64 { return s.Accepted }),
	counter("rdmad_rpc_calls_total", "RPC calls received.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Calls }),
	counter("rdmad_rpc_replies_total", "RPC replies sent.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Replies }),
	counter("rdmad_rpc_failed_total", "RPC calls that the service answered with an RPC error.",
		func(s *dataplane.ListenerStats) uint64 { return s.Failed }),
	counter("rdmad_rpc_reverse_calls_total", "RPC calls sent to clients.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.ReverseCalls }),
	counter("rdmad_rdma_reads_total", "RDMA Reads made.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.RDMAReads }),
	counter("rdmad_rdma_writes_total", "RDMA Writes made.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.RDMAWrites }),
	counter("rdmad_sends_total", "Sends made, those with invalidate included.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Sends }),
	counter("rdmad_sends_with_invalidate_total", "Sends that invalidated a tag of the peer.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.SendsWithInvalidate }),
	counter("rdmad_receives_total", "Sends received.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Receives }),
	counter("rdmad_round_trips_total", "Changes of direction on which calls waited, halved.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.RoundTrips }),
	counter("rdmad_errors_total", "Protocol errors by peers and transport errors.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Errors }),
	counter("rdmad_disconnects_total", "Connections that peers ended while calls of theirs were being served.",
		func(s *dataplane.ListenerStats) uint64 { return s.Disconnects }),
	counter("rdmad_replies_too_long_total", "Replies larger than what the client offered for them; it got ERR_CHUNK.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.RepliesTooLong }),
	counter("rdmad_messages_dropped_total", "Messages too short to be answered.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Dropped }),
	counter("rdmad_messages_ignored_total", "Messages that called for no answer.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Ignored }),
	counter("rdmad_duplicate_calls_total", "Calls dropped because their XID was in progress.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.Duplicates }),
	counter("rdmad_received_bytes_total", "Bytes received by Send and RDMA Read.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.BytesReceived }),
	counter("rdmad_sent_bytes_total", "Bytes sent by Send and RDMA Write.",
		func(s *dataplane.ListenerStats) uint64 { return s.Totals.BytesSent }),
}

func counter(name, help string, get func(*dataplane.ListenerStats) uint64) (c struct {
	desc *prometheus.Desc
	get  func(*dataplane.ListenerStats) uint64
}) {
	c.desc, c.get = prometheus.NewDesc(name, help, listenerLabels, nil), get
	return c
}

// gauges of a listener.
var gauges = []struct {
	desc *prometheus.Desc
	get  func(*dataplane.ListenerStats) float64
}{
	gauge("rdmad_credits_granted", "Calls that all peers together may have in flight.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Credits) }),
	gauge("rdmad_receive_sizes_remembered", "Peers whose smallest receive size is remembered, so that no larger Sends are announced to them.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Receivers) }),
	gauge("rdmad_connections_send_held", "Connections that get smaller Sends than inline.send_max, as their peers may have smaller receives.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.SendHeld) }),
	gauge("rdmad_rpc_queue_delay_seconds", "Smoothed time before a call's service starts, which adaptive grants follow.",
		func(s *dataplane.ListenerStats) float64 { return s.QueueDelay.Seconds() }),
	gauge("rdmad_memory_limit_bytes", "Registered memory that a listener may have now, of the budget of all.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Memory.Limit) }),
	gauge("rdmad_memory_registered_bytes", "Registered memory that a listener has.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Memory.Registered) }),
	gauge("rdmad_memory_taken_bytes", "Registered memory in use, in receives, replies and data.",
		func(s *dataplane.ListenerStats) float64 { return float64(s.Memory.Taken) }),
}

func gauge(name, help string, get func(*dataplane.ListenerStats) float64) (g struct {
	desc *prometheus.Desc
	get  func(*dataplane.ListenerStats) float64
}) {
	g.desc, g.get = prometheus.NewDesc(name, help, listenerLabels, nil), get
	return g
}

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{infoDesc, healthyDesc, upDesc, versionDesc, refusedDesc, evictedDesc, queueDesc, timeDesc, callSizeDesc, replySizeDesc} {
		ch <- d
	}
	for i := range counters {
		ch <- counters[i].desc
	}
	for i := range gauges {
		ch <- gauges[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.source.Stats() {
		ch <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, s.Name, s.Provider, s.Address.String(), s.Service)
		healthy := 1.0
		if s.State == dataplane.StateDegraded {
			healthy = 0
		}
		ch <- prometheus.MustNewConstMetric(healthyDesc, prometheus.GaugeValue, healthy, s.Name)
		ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, float64(s.Connections), s.Name)
		for v, n := range s.Versions {
			ch <- prometheus.MustNewConstMetric(versionDesc, prometheus.GaugeValue, float64(n), s.Name, versionNames[v])
		}
		for why, n := range s.Refusals {
			ch <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(n), s.Name, dataplane.Refusal(why).String())
		}
		for why, n := range s.Evictions {
			ch <- prometheus.MustNewConstMetric(evictedDesc, prometheus.CounterValue, float64(n), s.Name, connlimit.Reason(why).String())
		}
		for i := range counters {
			ch <- prometheus.MustNewConstMetric(counters[i].desc, prometheus.CounterValue, float64(counters[i].get(s)), s.Name)
		}
		for i := range gauges {
			ch <- prometheus.MustNewConstMetric(gauges[i].desc, prometheus.GaugeValue, gauges[i].get(s), s.Name)
		}
		ch <- histogram.NewMetric(queueDesc, histogram.Seconds, &s.QueueTime, s.Name)
		ch <- histogram.NewMetric(timeDesc, histogram.Seconds, &s.ServiceTime, s.Name)
		ch <- histogram.NewMetric(callSizeDesc, histogram.Bytes, &s.CallSize, s.Name)
		ch <- histogram.NewMetric(replySizeDesc, histogram.Bytes, &s.ReplySize, s.Name)
	}
}
