package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane"
)

// ConnectorSource is the part of the data plane that knows connectors.
type ConnectorSource interface {
	Connectors() []dataplane.ConnectorInfo
}

// NewConnectors makes a collector over the connectors of a source.
func NewConnectors(s ConnectorSource) prometheus.Collector { return connectorCollector{s} }

type connectorCollector struct{ source ConnectorSource }

var (
	connectorLabels = []string{"connector"}

	connectorInfoDesc = prometheus.NewDesc("rdmad_connector_info",
		"A connector, by provider, TCP address and target.", []string{"connector", "provider", "address", "target"}, nil)
	connectorRefusedDesc = prometheus.NewDesc("rdmad_connector_refused_total",
		"TCP clients that got no connection to the target, by reason.", []string{"connector", "reason"}, nil)
	connectorEvictedDesc = prometheus.NewDesc("rdmad_connector_evicted_total",
		"TCP clients that were disconnected for being idle, by age or by the limit over which others needed their place.", []string{"connector", "reason"}, nil)
)

// connectorSeries are those of a connector.
var connectorSeries = []connectorValue{
	connectorGauge("connections", "TCP clients that are connected to the target.",
		func(c *dataplane.ConnectorInfo) uint64 { return uint64(c.Connections) }),
	connectorGauge("registered_bytes", "Memory registered for connections to the target.",
		func(c *dataplane.ConnectorInfo) uint64 { return uint64(c.Memory) }),
	connectorCounter("accepted_total", "TCP clients for whom the target could be connected to.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.Accepted }),
	connectorCounter("rpc_calls_total", "RPC calls received from TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Calls }),
	connectorCounter("rpc_replies_total", "RPC replies sent to TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Replies }),
	connectorCounter("rpc_failed_total", "RPC calls answered with an error as the target's answer could not be passed on.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Failed }),
	connectorCounter("rpc_duplicates_total", "RPC calls dropped because one in flight has their XID.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Duplicates }),
	connectorCounter("rpc_reverse_calls_total", "RPC calls of the target to TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Callbacks }),
	connectorCounter("rpc_reverse_unanswered_total", "RPC calls of the target that TCP clients did not answer in time.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Unanswered }),
	connectorCounter("disconnects_total", "TCP clients that reset their connection before all of their calls were answered.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.Disconnects }),
	connectorCounter("received_bytes_total", "Bytes of records received from TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.BytesReceived }),
	connectorCounter("sent_bytes_total", "Bytes of records sent to TCP clients.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.TCP.BytesSent }),
	connectorCounter("rdma_errors_total", "Messages that the target refused, and bad replies of it.",
		func(c *dataplane.ConnectorInfo) uint64 { return c.Totals.Errors + c.Totals.BadReplies }),
}

type connectorValue struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	get  func(*dataplane.ConnectorInfo) uint64
}

func connectorGauge(name, help string, get func(*dataplane.ConnectorInfo) uint64) connectorValue {
	return connectorValue{prometheus.NewDesc("rdmad_connector_"+name, help, connectorLabels, nil), prometheus.GaugeValue, get}
}

func connectorCounter(name, help string, get func(*dataplane.ConnectorInfo) uint64) connectorValue {
	return connectorValue{prometheus.NewDesc("rdmad_connector_"+name, help, connectorLabels, nil), prometheus.CounterValue, get}
}

// Describe implements prometheus.Collector.
func (connectorCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- connectorInfoDesc
	ch <- connectorRefusedDesc
	ch <- connectorEvictedDesc
	for i := range connectorSeries {
		ch <- connectorSeries[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c connectorCollector) Collect(ch chan<- prometheus.Metric) {
	all := c.source.Connectors()
	for i := range all {
		k := &all[i]
		ch <- prometheus.MustNewConstMetric(connectorInfoDesc, prometheus.GaugeValue, 1, k.Name, k.Provider, k.Address.String(), k.Target)
		for why, n := range k.Refusals {
			ch <- prometheus.MustNewConstMetric(connectorRefusedDesc, prometheus.CounterValue, float64(n), k.Name, dataplane.Refusal(why).String())
		}
		collectReasons(ch, connectorEvictedDesc, &k.Evicted, k.Name)
		for j := range connectorSeries {
			s := &connectorSeries[j]
			ch <- prometheus.MustNewConstMetric(s.desc, s.kind, float64(s.get(k)), k.Name)
		}
	}
}
