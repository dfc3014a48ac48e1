package metrics

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/clients"
)

func TestClients(t *testing.T) {
	table := clients.New(1)
	table.Join(time.Now(), netip.MustParseAddr("192.0.2.7"), func() clients.Counters {
		return clients.Counters{Calls: 1, Errors: 2, BytesReceived: 3, BytesSent: 4, Time: 1500 * time.Millisecond}
	})
	table.Join(time.Now(), netip.MustParseAddr("192.0.2.8"), func() clients.Counters { return clients.Counters{Calls: 5} })
	list, _ := table.Export(time.Now())
	if len(list) != 1 {
		t.Fatal(list)
	}
	expect(t, NewClients(table), `
# HELP rdmad_client_calls_total RPC calls of a client.
# TYPE rdmad_client_calls_total counter
rdmad_client_calls_total{client="192.0.2.7"} 1
rdmad_client_calls_total{client="other"} 6
# HELP rdmad_client_connections Connections of a client, over RDMA and TCP. At most 20 busy clients have series of their own, the others count together as other.
# TYPE rdmad_client_connections gauge
rdmad_client_connections{client="192.0.2.7"} 1
rdmad_client_connections{client="other"} 1
# HELP rdmad_client_errors_total Protocol errors of a client's RDMA connections, and its calls over TCP that were answered with an RPC error.
# TYPE rdmad_client_errors_total counter
rdmad_client_errors_total{client="192.0.2.7"} 2
rdmad_client_errors_total{client="other"} 2
# HELP rdmad_client_received_bytes_total Bytes received from a client.
# TYPE rdmad_client_received_bytes_total counter
rdmad_client_received_bytes_total{client="192.0.2.7"} 3
rdmad_client_received_bytes_total{client="other"} 3
# HELP rdmad_client_sent_bytes_total Bytes sent to a client.
# TYPE rdmad_client_sent_bytes_total counter
rdmad_client_sent_bytes_total{client="192.0.2.7"} 4
rdmad_client_sent_bytes_total{client="other"} 4
# HELP rdmad_client_service_seconds_total Time that services, and targets of connectors, took for the calls of a client. Divided by rdmad_client_calls_total, the mean duration of its calls.
# TYPE rdmad_client_service_seconds_total counter
rdmad_client_service_seconds_total{client="192.0.2.7"} 1.5
rdmad_client_service_seconds_total{client="other"} 1.5
`)
}
