package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// NewTCP makes a collector over the services that are served on TCP too:
// stats gives their counters by service.
func NewTCP(stats func() map[string]rpctcp.Stats) prometheus.Collector { return tcpCollector(stats) }

type tcpCollector func() map[string]rpctcp.Stats

var serviceLabels = []string{"service"}

var (
	tcpReasonLabels = []string{"service", "reason"}

	tcpRefusedDesc = prometheus.NewDesc("rdmad_tcp_connections_refused_total",
		"ONC RPC connections over TCP for which there was no place, by the limit that they were over.", tcpReasonLabels, nil)
	tcpEvictedDesc = prometheus.NewDesc("rdmad_tcp_connections_evicted_total",
		"ONC RPC connections over TCP that were closed for being idle, by age or by the limit over which others needed their place.", tcpReasonLabels, nil)
)

// tcpSeries are those of a service on TCP.
var tcpSeries = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	get  func(*rpctcp.Stats) uint64
}{
	{prometheus.NewDesc("rdmad_tcp_connections", "ONC RPC connections over TCP that are up.", serviceLabels, nil),
		prometheus.GaugeValue, func(s *rpctcp.Stats) uint64 { return uint64(s.Connections) }},
	{prometheus.NewDesc("rdmad_tcp_connections_accepted_total", "ONC RPC connections over TCP that were accepted.", serviceLabels, nil),
		prometheus.CounterValue, func(s *rpctcp.Stats) uint64 { return s.Accepted }},
	{prometheus.NewDesc("rdmad_tcp_connections_slow_total", "ONC RPC connections over TCP that were closed because others waited for memory that their peers did not give back.", serviceLabels, nil),
		prometheus.CounterValue, func(s *rpctcp.Stats) uint64 { return s.Relieved }},
	{prometheus.NewDesc("rdmad_tcp_rpc_calls_total", "RPC calls received over TCP.", serviceLabels, nil),
		prometheus.CounterValue, func(s *rpctcp.Stats) uint64 { return s.Calls }},
	{prometheus.NewDesc("rdmad_tcp_errors_total", "RPC calls over TCP not answered with success, and connections cut for what the peer did.", serviceLabels, nil),
		prometheus.CounterValue, func(s *rpctcp.Stats) uint64 { return s.Errors }},
	{prometheus.NewDesc("rdmad_tcp_disconnects_total", "ONC RPC connections over TCP that their peers reset before all calls were answered.", serviceLabels, nil),
		prometheus.CounterValue, func(s *rpctcp.Stats) uint64 { return s.Disconnects }},
	{prometheus.NewDesc("rdmad_tcp_received_bytes_total", "Bytes of records received over TCP.", serviceLabels, nil),
		prometheus.CounterValue, func(s *rpctcp.Stats) uint64 { return s.BytesReceived }},
	{prometheus.NewDesc("rdmad_tcp_sent_bytes_total", "Bytes of records sent over TCP.", serviceLabels, nil),
		prometheus.CounterValue, func(s *rpctcp.Stats) uint64 { return s.BytesSent }},
}

// Describe implements prometheus.Collector.
func (tcpCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- tcpRefusedDesc
	ch <- tcpEvictedDesc
	for i := range tcpSeries {
		ch <- tcpSeries[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c tcpCollector) Collect(ch chan<- prometheus.Metric) {
	for service, s := range c() {
		collectReasons(ch, tcpRefusedDesc, &s.Refused, service)
		collectReasons(ch, tcpEvictedDesc, &s.Evicted, service)
		for i := range tcpSeries {
			ch <- prometheus.MustNewConstMetric(tcpSeries[i].desc, tcpSeries[i].kind, float64(tcpSeries[i].get(&s)), service)
		}
	}
}

// collectReasons sends counts by reason. owner is the first label.
func collectReasons(ch chan<- prometheus.Metric, desc *prometheus.Desc, counts *connlimit.Counts, owner string) {
	for why, n := range counts {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), owner, connlimit.Reason(why).String())
	}
}
