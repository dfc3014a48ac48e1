package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
)

var (
	connectorInfoDesc = define(isGauge, "rdmad_connector_info",
		"A connector, by provider, TCP address and target.", "connector", "provider", "address", "target")
	connectorRefusedDesc = define(isCounter, "rdmad_connector_refused_total",
		"TCP clients that got no connection to the target, by reason.", "connector", "reason")
	connectorEvictedDesc = define(isCounter, "rdmad_connector_evicted_total",
		"TCP clients that were disconnected for being idle, by age or by the limit over which others needed their place.", "connector", "reason")
)

// connectorSeries are the series of a connector.
var connectorSeries = named("rdmad_connector_", "connector", []series[dataplane.ConnectorInfo]{
	gauge("connections", "TCP clients that are connected to the target.",
		func(c *dataplane.ConnectorInfo) float64 { return float64(c.Connections) }),
	gauge("registered_bytes", "Memory registered for connections to the target.",
		func(c *dataplane.ConnectorInfo) float64 { return float64(c.Memory) }),
	counter("accepted_total", "TCP clients for whom the target could be connected to.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.Accepted }),
	counter("rpc_calls_total", "RPC calls received from TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Calls }),
	counter("rpc_replies_total", "RPC replies sent to TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Replies }),
	counter("rpc_failed_total", "RPC calls that rdmad itself answered with an error: they were too long or not valid, or the target's answer could not be passed on.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Failed }),
	counter("slow_calls_total", "RPC calls of TCP clients that took as long as slow_call, or longer.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.SlowCalls }),
	counter("rpc_duplicates_total", "RPC calls dropped because one in flight has their XID.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Duplicates }),
	counter("rpc_reverse_calls_total", "RPC calls of the target to TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Callbacks }),
	counter("rpc_reverse_unanswered_total", "RPC calls of the target that TCP clients did not answer in time.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Unanswered }),
	counter("disconnects_total", "TCP clients that reset their connection before all of their calls were answered.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Disconnects }),
	counter("received_bytes_total", "Bytes of records received from TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.BytesReceived }),
	counter("sent_bytes_total", "Bytes of records sent to TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.BytesSent }),
	counter("rdma_errors_total", "Messages that the target refused, and bad replies of it.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.Totals.Errors + c.Totals.BadReplies }),
})

// NewConnectors makes a collector over connectors.
func NewConnectors(list func() []dataplane.ConnectorInfo) prometheus.Collector {
	return newCollector(connectorSeries, func(visit func(string, *dataplane.ConnectorInfo)) {
		for _, k := range list() {
			visit(k.Name, &k)
		}
	}, func(to sink, name string, k *dataplane.ConnectorInfo) {
		to.gauge(connectorInfoDesc, 1, name, k.Provider, k.Address.String(), k.Target)
		reasons[dataplane.Refusal](to, connectorRefusedDesc, k.Refusals[:], name)
		reasons[connlimit.Reason](to, connectorEvictedDesc, k.Evicted[:], name)
	}, connectorInfoDesc, connectorRefusedDesc, connectorEvictedDesc)
}
