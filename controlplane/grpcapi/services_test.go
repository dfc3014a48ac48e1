package grpcapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestListConnections(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	res := have(rdmadv1.NewConnectionServiceClient(b.client).ListConnections(t.Context(), &rdmadv1.ListConnectionsRequest{}))(t)
	born := timestamppb.New(planetest.Born)
	want := &rdmadv1.ListConnectionsResponse{Connections: []*rdmadv1.Connection{
		{
			Id: "1", Listener: "nfs", Provider: "softiwarp", Peer: "192.0.2.7:1001", RpcVersion: 1,
			InlineSend: 4096, InlineReceive: 4096, CreditsGranted: 64, RemoteInvalidation: true,
			Calls: 3, Replies: 2, Sends: 2, SendsWithInvalidate: 1, RdmaReads: 4, RdmaWrites: 5, Errors: 1,
			Service: "export", State: rdmadv1.Connection_UP, Local: "127.0.0.1:20049", Since: born,
		},
		{
			Id: "2", Listener: "nfs", Provider: "softiwarp", Peer: "192.0.2.8:1002", RpcVersion: 1,
			InlineSend: 4096, InlineReceive: 4096, CreditsGranted: 64,
			Service: "export", State: rdmadv1.Connection_DRAINING, Local: "127.0.0.1:20049", Since: born,
		},
	}}
	if !proto.Equal(res, want) {
		t.Errorf("got  %v\nwant %v", res, want)
	}
}

func TestGetConnection(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewConnectionServiceClient(b.client)
	res, err := c.GetConnection(t.Context(), &rdmadv1.GetConnectionRequest{Id: "2"})
	if err != nil || res.GetConnection().GetId() != "2" {
		t.Fatalf("%v, %v", res, err)
	}
	for id, code := range map[string]codes.Code{"9": codes.NotFound, "": codes.InvalidArgument, strings.Repeat("9", 65): codes.InvalidArgument} {
		_, err := c.GetConnection(t.Context(), &rdmadv1.GetConnectionRequest{Id: id})
		if status.Code(err) != code {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// undescribed is a plane that describes no connection.
type undescribed struct {
	*planetest.Plane
	t *testing.T
}

func (u undescribed) Connections() []dataplane.ConnInfo {
	u.t.Error("all connections are described")
	return nil
}

func (u undescribed) Stats() []*dataplane.ListenerStats {
	u.t.Error("the histograms of all listeners are copied")
	return nil
}

// TestStatusDescribesNoConnection: consoles ask for it again and again.
func TestStatusDescribesNoConnection(t *testing.T) {
	plane := smallPlane()
	b := start(t, plane, undescribed{plane, t}, 16)
	st, err := rdmadv1.NewStatusServiceClient(b.client).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{})
	if err != nil || st.GetConnections() != 2 || st.GetCalls() != 3 || st.GetErrors() != 1 {
		t.Errorf("%v, %v", st, err)
	}
}

func TestListenersAndStatus(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	listeners := have(rdmadv1.NewListenerServiceClient(b.client).ListListeners(t.Context(), &rdmadv1.ListListenersRequest{}))(t)
	want := &rdmadv1.ListListenersResponse{Listeners: []*rdmadv1.Listener{{
		Name: "nfs", Provider: "softiwarp", Address: "127.0.0.1:20049", Service: "export", Since: timestamppb.New(planetest.Born),
		Source: "config", Admission: &rdmadv1.Admission{}, State: rdmadv1.Listener_UP,
	}}}
	if !proto.Equal(listeners, want) {
		t.Errorf("got  %v\nwant %v", listeners, want)
	}
	b.plane.Connector(dataplane.ConnectorInfo{Totals: rpcrdma.Stats{Calls: 40, Errors: 10}})
	for connections := uint32(2); ; connections-- { // what has ended still counts
		st := have(rdmadv1.NewStatusServiceClient(b.client).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{}))(t)
		if st.GetVersion() != "v1.2.3" || st.GetListeners() != 1 || st.GetConnections() != connections || st.GetCalls() != 43 ||
			st.GetErrors() != 11 || st.GetUptimeSeconds() <= 0 || st.GetStarted() == nil {
			t.Errorf("status %v", st)
		}
		if connections == 0 {
			break
		}
		b.plane.Disconnect(b.plane.Connections()[0].ID, "")
	}
}

var services = []string{
	"grpc.channelz.v1.Channelz", "grpc.health.v1.Health", "rdmad.v1.AuditService", "rdmad.v1.ConfigurationService", "rdmad.v1.ConnectionService",
	"rdmad.v1.ConnectorService", "rdmad.v1.ConsoleService",
	"rdmad.v1.DiagnosticsService", "rdmad.v1.ExtensionService", "rdmad.v1.FleetService", "rdmad.v1.ListenerService", "rdmad.v1.ProcessService",
	"rdmad.v1.SettingsService", "rdmad.v1.StatusService", "rdmad.v1.TelemetryService",
}

func TestHealthOfEachService(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	for _, name := range append([]string{""}, services[2:]...) {
		res, err := healthpb.NewHealthClient(b.client).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil || res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, res, err)
		}
	}
	_, err := healthpb.NewHealthClient(b.client).Check(t.Context(), &healthpb.HealthCheckRequest{Service: "rdmad.v1.Nothing"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
}

func TestReflection(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	stream := have(reflectionpb.NewServerReflectionClient(b.client).ServerReflectionInfo(t.Context()))(t)
	defer stream.CloseSend()
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	res := have(stream.Recv())(t)
	var names []string
	for _, s := range res.GetListServicesResponse().GetService() {
		if !strings.HasPrefix(s.GetName(), "grpc.reflection.") {
			names = append(names, s.GetName())
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, services) {
		t.Errorf("services %v, want %v", names, services)
	}
}

// panicky breaks when asked for listeners.
type panicky struct{ *planetest.Plane }

func (panicky) Listeners() []dataplane.ListenerInfo { panic("the roof is on fire") }

func TestPanicIsOneFailedCall(t *testing.T) {
	plane := smallPlane()
	b := start(t, plane, panicky{plane}, 16)
	_, err := rdmadv1.NewStatusServiceClient(b.client).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "fire") {
		t.Errorf("the caller sees %v", err)
	}
	for _, want := range []string{"the roof is on fire", "panicky.Listeners", "level=ERROR", "grpc.code=Internal"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, b.log)
		}
	}
	if _, err := rdmadv1.NewConnectionServiceClient(b.client).ListConnections(t.Context(), &rdmadv1.ListConnectionsRequest{}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if n := handled(t, b.registry, "GetStatus", "Internal"); n != 1 {
		t.Errorf("counted %v times", n)
	}
}

// handled reads grpc_server_handled_total.
func handled(t *testing.T, r *prometheus.Registry, method, code string) (n float64) {
	t.Helper()
	families := have(r.Gather())(t)
	for _, f := range families {
		if f.GetName() != "grpc_server_handled_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["grpc_method"] == method && labels["grpc_code"] == code {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestRequestsAreBounded(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	err := b.client.Invoke(t.Context(), rdmadv1.ConnectionService_GetConnection_FullMethodName,
		&rdmadv1.GetConnectionRequest{Id: strings.Repeat("x", 300<<10)}, &rdmadv1.GetConnectionResponse{}, grpc.WaitForReady(true))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
}
