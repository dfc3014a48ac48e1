package metrics

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixed []*dataplane.ListenerStats

func (f fixed) Stats() []*dataplane.ListenerStats { return f }

// sample has a different number in each counter, so that none can stand for
// another.
func sample() fixed {
	s := &dataplane.ListenerStats{
		ListenerInfo: dataplane.ListenerInfo{
			EndpointInfo: dataplane.EndpointInfo{
				Name: "nfs", Provider: "softiwarp", Address: netip.MustParseAddrPort("127.0.0.1:20049"),
				Connections: 1, Accepted: 2, SlowCalls: 44, Refused: 3,
				Refusals: dataplane.Refusals{dataplane.RefusedPerPeer: 1, dataplane.RefusedDenied: 2},
			},
			Service: "export",
		},
		Totals: rpcrdma.Stats{
			Calls: 4, Replies: 5, ReverseCalls: 6, RDMAReads: 7, RDMAWrites: 8, Sends: 9,
			SendsWithInvalidate: 10, Receives: 11, Errors: 12, BytesReceived: 13, BytesSent: 14,
			Dropped: 16, Ignored: 17, Duplicates: 18, RepliesTooLong: 31, RoundTrips: 36,
		},
		Versions: [3]int{32, 33, 34},
		Failed:   15, Disconnects: 37,
		MaxConnections: 42, SharedConnections: 46, Receivers: 39, SendHeld: 40, InFlight: 43,
		Credits: 19, QueueDelay: 20 * time.Millisecond,
		Memory: rpcrdma.MemoryStats{Limit: 28, Registered: 29, Taken: 30},
	}
	var h histogram.Histogram
	h.Record(2_000_000)
	h.Snapshot(&s.ServiceTime)
	return fixed{s}
}

func tcpSample() map[string]rpctcp.Stats {
	return map[string]rpctcp.Stats{"export": {
		Connections: 21, Accepted: 22, Refused: connlimit.Counts{23, 39}, Evicted: connlimit.Counts{connlimit.Idle: 40}, Relieved: 41, Calls: 24, Slow: 45, Errors: 25, Disconnects: 38, BytesReceived: 26, BytesSent: 27,
	}}
}

func TestEverySeries(t *testing.T) {
	const want = `
# HELP rdmad_connections RPC-over-RDMA connections that are up.
# TYPE rdmad_connections gauge
rdmad_connections{listener="nfs"} 1
# HELP rdmad_connections_accepted_total Connections that came up.
# TYPE rdmad_connections_accepted_total counter
rdmad_connections_accepted_total{listener="nfs"} 2
# HELP rdmad_connections_by_version RPC-over-RDMA connections that are up, by the protocol version agreed on; none is before the first call.
# TYPE rdmad_connections_by_version gauge
rdmad_connections_by_version{listener="nfs",rpc_version="1"} 33
rdmad_connections_by_version{listener="nfs",rpc_version="2"} 34
rdmad_connections_by_version{listener="nfs",rpc_version="none"} 32
# HELP rdmad_connections_evicted_total Connections that were closed for being idle, or for another that needed the place, by reason.
# TYPE rdmad_connections_evicted_total counter
rdmad_connections_evicted_total{listener="nfs",reason="connections"} 0
rdmad_connections_evicted_total{listener="nfs",reason="connections_per_peer"} 0
rdmad_connections_evicted_total{listener="nfs",reason="half_open"} 0
rdmad_connections_evicted_total{listener="nfs",reason="idle"} 0
rdmad_connections_evicted_total{listener="nfs",reason="reserved"} 0
# HELP rdmad_connections_limit Most RPC-over-RDMA connections that a listener may have: its own limit or that of all listeners together.
# TYPE rdmad_connections_limit gauge
rdmad_connections_limit{listener="nfs"} 42
# HELP rdmad_connections_refused_total Connections that were refused or failed while being made, by reason.
# TYPE rdmad_connections_refused_total counter
rdmad_connections_refused_total{listener="nfs",reason="connections"} 0
rdmad_connections_refused_total{listener="nfs",reason="connections_per_peer"} 1
rdmad_connections_refused_total{listener="nfs",reason="denied"} 2
rdmad_connections_refused_total{listener="nfs",reason="handshake"} 0
rdmad_connections_refused_total{listener="nfs",reason="memory"} 0
rdmad_connections_refused_total{listener="nfs",reason="service"} 0
rdmad_connections_refused_total{listener="nfs",reason="stopping"} 0
# HELP rdmad_connections_send_held Connections that get smaller Sends than inline.send_max, as their peers may have smaller receives.
# TYPE rdmad_connections_send_held gauge
rdmad_connections_send_held{listener="nfs"} 40
# HELP rdmad_connections_shared_limit Most RPC-over-RDMA connections that all listeners may have together.
# TYPE rdmad_connections_shared_limit gauge
rdmad_connections_shared_limit{listener="nfs"} 46
# HELP rdmad_credits_granted Calls that all peers together may have in flight.
# TYPE rdmad_credits_granted gauge
rdmad_credits_granted{listener="nfs"} 19
# HELP rdmad_disconnects_total Connections that peers ended while calls of theirs were being served.
# TYPE rdmad_disconnects_total counter
rdmad_disconnects_total{listener="nfs"} 37
# HELP rdmad_duplicate_calls_total Calls dropped because their XID was in progress.
# TYPE rdmad_duplicate_calls_total counter
rdmad_duplicate_calls_total{listener="nfs"} 18
# HELP rdmad_errors_total Protocol errors by peers and transport errors.
# TYPE rdmad_errors_total counter
rdmad_errors_total{listener="nfs"} 12
# HELP rdmad_listener_info A listener, by provider, address and service.
# TYPE rdmad_listener_info gauge
rdmad_listener_info{address="127.0.0.1:20049",listener="nfs",provider="softiwarp",service="export"} 1
# HELP rdmad_memory_limit_bytes Registered memory that a listener may have now, of the budget of all.
# TYPE rdmad_memory_limit_bytes gauge
rdmad_memory_limit_bytes{listener="nfs"} 28
# HELP rdmad_memory_registered_bytes Registered memory that a listener has.
# TYPE rdmad_memory_registered_bytes gauge
rdmad_memory_registered_bytes{listener="nfs"} 29
# HELP rdmad_memory_taken_bytes Registered memory in use, in receives, replies and data.
# TYPE rdmad_memory_taken_bytes gauge
rdmad_memory_taken_bytes{listener="nfs"} 30
# HELP rdmad_messages_dropped_total Messages too short to be answered.
# TYPE rdmad_messages_dropped_total counter
rdmad_messages_dropped_total{listener="nfs"} 16
# HELP rdmad_messages_ignored_total Messages that called for no answer.
# TYPE rdmad_messages_ignored_total counter
rdmad_messages_ignored_total{listener="nfs"} 17
# HELP rdmad_rdma_reads_total RDMA Reads made.
# TYPE rdmad_rdma_reads_total counter
rdmad_rdma_reads_total{listener="nfs"} 7
# HELP rdmad_rdma_writes_total RDMA Writes made.
# TYPE rdmad_rdma_writes_total counter
rdmad_rdma_writes_total{listener="nfs"} 8
# HELP rdmad_receive_sizes_remembered Peers whose smallest receive size is remembered, so that no larger Sends are announced to them.
# TYPE rdmad_receive_sizes_remembered gauge
rdmad_receive_sizes_remembered{listener="nfs"} 39
# HELP rdmad_received_bytes_total Bytes received by Send and RDMA Read.
# TYPE rdmad_received_bytes_total counter
rdmad_received_bytes_total{listener="nfs"} 13
# HELP rdmad_receives_total Sends received.
# TYPE rdmad_receives_total counter
rdmad_receives_total{listener="nfs"} 11
# HELP rdmad_replies_too_long_total Replies larger than what the client offered for them; it got ERR_CHUNK.
# TYPE rdmad_replies_too_long_total counter
rdmad_replies_too_long_total{listener="nfs"} 31
# HELP rdmad_round_trips_total Changes of direction on which calls waited, halved.
# TYPE rdmad_round_trips_total counter
rdmad_round_trips_total{listener="nfs"} 36
# HELP rdmad_rpc_calls_in_flight Calls that the service has not answered yet. Divided by rdmad_credits_granted, the use of credits.
# TYPE rdmad_rpc_calls_in_flight gauge
rdmad_rpc_calls_in_flight{listener="nfs"} 43
# HELP rdmad_rpc_calls_total RPC calls received.
# TYPE rdmad_rpc_calls_total counter
rdmad_rpc_calls_total{listener="nfs"} 4
# HELP rdmad_rpc_failed_total RPC calls that the service answered with an RPC error.
# TYPE rdmad_rpc_failed_total counter
rdmad_rpc_failed_total{listener="nfs"} 15
# HELP rdmad_rpc_queue_delay_seconds Smoothed time before a call's service starts, which adaptive grants follow.
# TYPE rdmad_rpc_queue_delay_seconds gauge
rdmad_rpc_queue_delay_seconds{listener="nfs"} 0.02
# HELP rdmad_rpc_replies_total RPC replies sent.
# TYPE rdmad_rpc_replies_total counter
rdmad_rpc_replies_total{listener="nfs"} 5
# HELP rdmad_rpc_reverse_calls_total RPC calls sent to clients.
# TYPE rdmad_rpc_reverse_calls_total counter
rdmad_rpc_reverse_calls_total{listener="nfs"} 6
# HELP rdmad_sends_total Sends made, those with invalidate included.
# TYPE rdmad_sends_total counter
rdmad_sends_total{listener="nfs"} 9
# HELP rdmad_sends_with_invalidate_total Sends that invalidated a tag of the peer.
# TYPE rdmad_sends_with_invalidate_total counter
rdmad_sends_with_invalidate_total{listener="nfs"} 10
# HELP rdmad_sent_bytes_total Bytes sent by Send and RDMA Write.
# TYPE rdmad_sent_bytes_total counter
rdmad_sent_bytes_total{listener="nfs"} 14
# HELP rdmad_slow_calls_total RPC calls over a listener that took as long as slow_call, or longer.
# TYPE rdmad_slow_calls_total counter
rdmad_slow_calls_total{listener="nfs"} 44
# HELP rdmad_tcp_connections ONC RPC connections over TCP that are up.
# TYPE rdmad_tcp_connections gauge
rdmad_tcp_connections{service="export"} 21
# HELP rdmad_tcp_connections_accepted_total ONC RPC connections over TCP that were accepted.
# TYPE rdmad_tcp_connections_accepted_total counter
rdmad_tcp_connections_accepted_total{service="export"} 22
# HELP rdmad_tcp_connections_evicted_total ONC RPC connections over TCP that were closed for being idle, by age or by the limit over which others needed their place.
# TYPE rdmad_tcp_connections_evicted_total counter
rdmad_tcp_connections_evicted_total{reason="connections",service="export"} 0
rdmad_tcp_connections_evicted_total{reason="connections_per_peer",service="export"} 0
rdmad_tcp_connections_evicted_total{reason="half_open",service="export"} 0
rdmad_tcp_connections_evicted_total{reason="idle",service="export"} 40
rdmad_tcp_connections_evicted_total{reason="reserved",service="export"} 0
# HELP rdmad_tcp_connections_refused_total ONC RPC connections over TCP for which there was no place, by the limit that they were over.
# TYPE rdmad_tcp_connections_refused_total counter
rdmad_tcp_connections_refused_total{reason="connections",service="export"} 23
rdmad_tcp_connections_refused_total{reason="connections_per_peer",service="export"} 39
rdmad_tcp_connections_refused_total{reason="half_open",service="export"} 0
rdmad_tcp_connections_refused_total{reason="idle",service="export"} 0
rdmad_tcp_connections_refused_total{reason="reserved",service="export"} 0
# HELP rdmad_tcp_connections_slow_total ONC RPC connections over TCP that were closed because others waited for memory that their peers did not give back.
# TYPE rdmad_tcp_connections_slow_total counter
rdmad_tcp_connections_slow_total{service="export"} 41
# HELP rdmad_tcp_disconnects_total ONC RPC connections over TCP that their peers reset before all calls were answered.
# TYPE rdmad_tcp_disconnects_total counter
rdmad_tcp_disconnects_total{service="export"} 38
# HELP rdmad_tcp_errors_total RPC calls over TCP not answered with success, and connections ended because of errors of the peer.
# TYPE rdmad_tcp_errors_total counter
rdmad_tcp_errors_total{service="export"} 25
# HELP rdmad_tcp_received_bytes_total Bytes of records received over TCP.
# TYPE rdmad_tcp_received_bytes_total counter
rdmad_tcp_received_bytes_total{service="export"} 26
# HELP rdmad_tcp_rpc_calls_total RPC calls received over TCP.
# TYPE rdmad_tcp_rpc_calls_total counter
rdmad_tcp_rpc_calls_total{service="export"} 24
# HELP rdmad_tcp_sent_bytes_total Bytes of records sent over TCP.
# TYPE rdmad_tcp_sent_bytes_total counter
rdmad_tcp_sent_bytes_total{service="export"} 27
# HELP rdmad_tcp_slow_calls_total RPC calls over TCP that took as long as slow_call, or longer.
# TYPE rdmad_tcp_slow_calls_total counter
rdmad_tcp_slow_calls_total{service="export"} 45
`
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(New(sample().Stats), NewTCP(tcpSample))
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	histograms := 0
	for _, f := range all {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			histograms++
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&got, f); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != want[1:] || histograms != 4 {
		t.Errorf("%d histograms and\n%s\nwant 4 and%s", histograms, got.String(), want)
	}
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	if err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// serve runs a Server on a free port and gives its URL.
func serve(t *testing.T, health Health) string {
	t.Helper()
	return "http://" + serveWeb(t, health, "")
}

// serveWeb runs a Server with a web configuration and gives its address.
func serveWeb(t *testing.T, health Health, config string) string {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(New(sample().Stats), BuildInfo("1.2.3"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(reg, health, connlimit.New(time.Now(), connlimit.Config{}), config, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func get(t *testing.T, url, accept string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

func TestScrapeAsText(t *testing.T) {
	code, _, body := get(t, serve(t, healthy())+"/metrics", "text/plain")
	for _, want := range []string{
		`rdmad_rpc_service_seconds_bucket{listener="nfs",le="0.004194304"} 1`,
		`rdmad_rpc_service_seconds_sum{listener="nfs"} 0.002`,
		`rdmad_rpc_reply_bytes_count{listener="nfs"} 0`,
		`version="1.2.3"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in the scrape (status %d)", want, code)
		}
	}
}

func TestScrapeNative(t *testing.T) {
	const accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	_, header, body := get(t, serve(t, healthy())+"/metrics", accept)
	dec := expfmt.NewDecoder(strings.NewReader(body), expfmt.ResponseFormat(header))
	for {
		var f dto.MetricFamily
		if err := dec.Decode(&f); err != nil {
			t.Fatalf("no rdmad_rpc_service_seconds in the scrape: %v", err)
		}
		if f.GetName() != "rdmad_rpc_service_seconds" {
			continue
		}
		if h := f.Metric[0].Histogram; h.GetSchema() != 3 || len(h.PositiveDelta) != 1 || h.PositiveDelta[0] != 1 {
			t.Errorf("native histogram %v", h)
		}
		return
	}
}

func TestScrapeAsOpenMetrics(t *testing.T) {
	_, header, body := get(t, serve(t, healthy())+"/metrics", "application/openmetrics-text;version=1.0.0")
	if !strings.HasPrefix(header.Get("Content-Type"), "application/openmetrics-text; version=1.0.0") || !strings.HasSuffix(body, "# EOF\n") ||
		!strings.Contains(body, "# TYPE rdmad_rpc_calls counter\nrdmad_rpc_calls_total{listener=\"nfs\"} 4.0\n") {
		t.Errorf("%v and\n%s", header, body)
	}
}

// healthy is the health of a rdmad that serves.
func healthy() Health {
	return Health{Conditions: conditions.NewRegistry(), Phase: func() string { return "" }}
}

func TestHealthz(t *testing.T) {
	health, phase := healthy(), ""
	health.Phase = func() string { return phase }
	url := serve(t, health)
	if code, _, body := get(t, url+"/healthz", ""); code != 200 || body != "ok\n" {
		t.Errorf("%d %q while healthy", code, body)
	}
	phase = "stopping"
	if code, _, body := get(t, url+"/healthz", ""); code != 503 || body != "stopping\n" {
		t.Errorf("%d %q while stopping", code, body)
	}
	if code, _, _ := get(t, url+"/", ""); code != 404 {
		t.Errorf("%d for another path", code)
	}
}
