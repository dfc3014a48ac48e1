package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// NewTCP makes a collector over the services that are also served on TCP. stats returns
// their counters by service.
func NewTCP(stats func() map[string]rpctcp.Stats) prometheus.Collector {
	return newCollector(tcpSeries, ofServices(stats), func(to sink, service string, s *rpctcp.Stats) {
		reasons[connlimit.Reason](to, tcpRefusedDesc, s.Refused[:], service)
		reasons[connlimit.Reason](to, tcpEvictedDesc, s.Evicted[:], service)
	}, tcpRefusedDesc, tcpEvictedDesc)
}

var (
	tcpRefusedDesc = define(isCounter, "rdmad_tcp_connections_refused_total",
		"ONC RPC connections over TCP for which there was no place, by the limit that they were over.", "service", "reason")
	tcpEvictedDesc = define(isCounter, "rdmad_tcp_connections_evicted_total",
		"ONC RPC connections over TCP that were closed for being idle, by age or by the limit over which others needed their place.", "service", "reason")
)

// tcpSeries are the series of a service on TCP.
var tcpSeries = named("rdmad_tcp_", "service", []series[rpctcp.Stats]{
	gauge("connections", "ONC RPC connections over TCP that are up.",
		func(s *rpctcp.Stats) float64 { return float64(s.Connections) }),
	counter("connections_accepted_total", "ONC RPC connections over TCP that were accepted.",
		func(s *rpctcp.Stats) uint64 { return s.Accepted }),
	counter("connections_slow_total", "ONC RPC connections over TCP that were closed because others waited for memory that their peers did not give back.",
		func(s *rpctcp.Stats) uint64 { return s.Relieved }),
	counter("rpc_calls_total", "RPC calls received over TCP.",
		func(s *rpctcp.Stats) uint64 { return s.Calls }),
	counter("slow_calls_total", "RPC calls over TCP that took as long as slow_call, or longer.",
		func(s *rpctcp.Stats) uint64 { return s.Slow }),
	counter("errors_total", "RPC calls over TCP not answered with success, and connections ended because of errors of the peer.",
		func(s *rpctcp.Stats) uint64 { return s.Errors }),
	counter("disconnects_total", "ONC RPC connections over TCP that their peers reset before all calls were answered.",
		func(s *rpctcp.Stats) uint64 { return s.Disconnects }),
	counter("received_bytes_total", "Bytes of records received over TCP.",
		func(s *rpctcp.Stats) uint64 { return s.BytesReceived }),
	counter("sent_bytes_total", "Bytes of records sent over TCP.",
		func(s *rpctcp.Stats) uint64 { return s.BytesSent }),
})
