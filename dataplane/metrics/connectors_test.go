package metrics

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

type connectors []dataplane.ConnectorInfo

func (c connectors) Connectors() []dataplane.ConnectorInfo { return c }

// TestConnectors: a different number in each counter, so that none can stand
// for another.
func TestConnectors(t *testing.T) {
	sample := connectors{{
		EndpointInfo: dataplane.EndpointInfo{
			Name: "out", Provider: "softiwarp", Address: netip.MustParseAddrPort("127.0.0.1:22049"),
			Connections: 1, Accepted: 2, SlowCalls: 17, Refusals: dataplane.Refusals{dataplane.RefusedHandshake: 3},
		},
		Target: "nas:20049",
		Totals: rpcrdma.Stats{Errors: 4, BadReplies: 5}, Memory: 15,
		TCP: dataplane.ConnectorStats{
			Calls: 6, Replies: 7, Failed: 8, Duplicates: 10, Callbacks: 11, Unanswered: 12, Disconnects: 16, BytesReceived: 13, BytesSent: 14,
		},
	}}
	const want = `
rdmad_connector_accepted_total{connector="out"} 2
rdmad_connector_connections{connector="out"} 1
rdmad_connector_disconnects_total{connector="out"} 16
rdmad_connector_info{address="127.0.0.1:22049",connector="out",provider="softiwarp",target="nas:20049"} 1
rdmad_connector_rdma_errors_total{connector="out"} 9
rdmad_connector_received_bytes_total{connector="out"} 13
rdmad_connector_refused_total{connector="out",reason="handshake"} 3
rdmad_connector_registered_bytes{connector="out"} 15
rdmad_connector_rpc_calls_total{connector="out"} 6
rdmad_connector_rpc_duplicates_total{connector="out"} 10
rdmad_connector_rpc_failed_total{connector="out"} 8
rdmad_connector_rpc_replies_total{connector="out"} 7
rdmad_connector_rpc_reverse_calls_total{connector="out"} 11
rdmad_connector_rpc_reverse_unanswered_total{connector="out"} 12
rdmad_connector_sent_bytes_total{connector="out"} 14
rdmad_connector_slow_calls_total{connector="out"} 17
`
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewConnectors(sample.Connectors))
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text, got strings.Builder
	for _, f := range all {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") && !strings.HasSuffix(line, " 0\n") {
			got.WriteString(line)
		}
	}
	if got.String() != want[1:] {
		t.Errorf("got\n%s\nwant%s", got.String(), want)
	}
	if n := strings.Count(text.String(), "rdmad_connector_refused_total{"); n != len(dataplane.Refusals{}) {
		t.Errorf("%d reasons of refusal", n)
	}
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
