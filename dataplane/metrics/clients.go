package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rdmad/rdmad/dataplane/clients"
)

// otherClients is the name of all clients without series of their own. It is no address.
const otherClients = "other"

// clientSeries are the series of a client.
var clientSeries = named("rdmad_client_", "client", []series[clients.Client]{
	gauge("connections", "Connections of a client, over RDMA and TCP. At most 20 busy clients have series of their own, the others count together as other.",
		func(c *clients.Client) float64 { return float64(c.Connections) }),
	counter("calls_total", "RPC calls of a client.",
		func(c *clients.Client) uint64 { return c.Calls }),
	counter("errors_total", "Protocol errors of a client's RDMA connections, and its calls over TCP that were answered with an RPC error.",
		func(c *clients.Client) uint64 { return c.Errors }),
	counter("received_bytes_total", "Bytes received from a client.",
		func(c *clients.Client) uint64 { return c.BytesReceived }),
	counter("sent_bytes_total", "Bytes sent to a client.",
		func(c *clients.Client) uint64 { return c.BytesSent }),
	timeCounter("service_seconds_total", "Time that services, and targets of connectors, took for the calls of a client. Divided by rdmad_client_calls_total, the mean duration of its calls.",
		func(c *clients.Client) time.Duration { return c.Time }),
})

// NewClients makes a collector over clients.
func NewClients(t *clients.Table) prometheus.Collector {
	return newCollector(clientSeries, func(visit func(string, *clients.Client)) {
		list, others := t.Export(time.Now())
		for i := range list {
			visit(list[i].Address.String(), &list[i])
		}
		visit(otherClients, &others)
	}, nil)
}
