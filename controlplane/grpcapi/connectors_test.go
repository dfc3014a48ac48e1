package grpcapi_test

import (
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestConnectors: each field has what it says, a page at a time.
func TestConnectors(t *testing.T) {
	p := smallPlane()
	p.Connector(dataplane.ConnectorInfo{
		EndpointInfo: dataplane.EndpointInfo{
			Name: "a", Provider: "softiwarp", Address: netip.MustParseAddrPort("127.0.0.1:22049"),
			State: dataplane.StateDraining, Connections: 1, Accepted: 2, Refused: 3, Since: planetest.Born,
			Limits: dataplane.Limits{Connections: 4, ConnectionsPerPeer: 5, Handshakes: 6},
			Access: dataplane.Access{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		},
		Target: "nas:20049",
		TCP: dataplane.ConnectorStats{
			Calls: 7, Replies: 8, Failed: 9, Duplicates: 10, Callbacks: 11, Unanswered: 12, Stray: 13, BytesReceived: 14, BytesSent: 15,
		},
	})
	p.Connector(dataplane.ConnectorInfo{EndpointInfo: dataplane.EndpointInfo{Name: "b", State: dataplane.StateUp}})
	c := rdmadv1.NewConnectorServiceClient(start(t, p, nil, 16).client)
	first, err := c.ListConnectors(t.Context(), &rdmadv1.ListConnectorsRequest{PageSize: 1})
	if err != nil || len(first.GetConnectors()) != 1 {
		t.Fatalf("%v, %v", first, err)
	}
	want := &rdmadv1.Connector{
		Name: "a", Address: "127.0.0.1:22049", Provider: "softiwarp", Target: "nas:20049", State: rdmadv1.Connector_DRAINING,
		Connections: 1, Accepted: 2, Refused: 3, Calls: 7, Replies: 8, Failed: 9, Duplicates: 10, ReverseCalls: 11,
		ReverseUnanswered: 12, BytesReceived: 14, BytesSent: 15, Since: first.GetConnectors()[0].GetSince(),
		Admission: &rdmadv1.Admission{MaxConnections: 4, MaxConnectionsPerPeer: 5, MaxHandshakes: 6, Allow: []string{"192.0.2.0/24"}},
		Source:    "config",
	}
	if got := first.GetConnectors()[0]; !proto.Equal(got, want) || !got.GetSince().AsTime().Equal(planetest.Born) {
		t.Errorf("got %v, want %v", got, want)
	}
	rest, err := c.ListConnectors(t.Context(), &rdmadv1.ListConnectorsRequest{PageSize: 1, PageToken: first.GetNextPageToken()})
	if err != nil || len(rest.GetConnectors()) != 1 || rest.GetConnectors()[0].GetName() != "b" || rest.GetNextPageToken() != "" {
		t.Errorf("%v, %v", rest, err)
	}
	if _, err := c.ListConnectors(t.Context(), &rdmadv1.ListConnectorsRequest{PageToken: "x"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a token of nothing: %v", err)
	}
}

// TestConnectorsComeAndGo: each field of a request arrives, and what was added
// can be removed.
func TestConnectorsComeAndGo(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewConnectorServiceClient(b.client)
	added, err := c.AddConnector(t.Context(), &rdmadv1.AddConnectorRequest{
		Name: "out", Listen: "127.0.0.1:0", Target: "nas:20049", DialTimeout: durationpb.New(time.Second), CallbackTimeout: durationpb.New(2 * time.Second),
		MaxCalls: 3, MaxReply: 4096, MaxMemory: 1 << 25,
		Admission: &rdmadv1.Admission{MaxConnections: 4, MaxConnectionsPerPeer: 5, MaxHandshakes: 6, Allow: []string{"192.0.2.0/24"}, Deny: []string{"192.0.2.7"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &rdmadv1.Connector{
		Name: "out", Address: "127.0.0.1:40000", Provider: "softiwarp", Target: "nas:20049", State: rdmadv1.Connector_UP, Source: "runtime",
		Since: timestamppb.New(planetest.Born),
		Admission: &rdmadv1.Admission{
			MaxConnections: 4, MaxConnectionsPerPeer: 5, MaxHandshakes: 6, Allow: []string{"192.0.2.0/24"}, Deny: []string{"192.0.2.7/32"},
		},
		DialTimeout: durationpb.New(time.Second), CallbackTimeout: durationpb.New(2 * time.Second), MaxCalls: 3, MaxReply: 4096, MaxMemory: 1 << 25,
	}
	if !proto.Equal(added.GetConnector(), want) {
		t.Errorf("got  %v\nwant %v", added.GetConnector(), want)
	}
	spec := b.manager.Connectors.List()[0].Spec
	if spec.DialTimeout != time.Second || spec.CallbackTimeout != 2*time.Second || spec.MaxCalls != 3 || spec.MaxReply != 4096 || spec.Limits.Memory != 1<<25 {
		t.Errorf("wanted %+v", spec)
	}
	if _, err := c.RemoveConnector(t.Context(), &rdmadv1.RemoveConnectorRequest{Name: "out"}); err != nil {
		t.Error(err)
	}
	if all, err := c.ListConnectors(t.Context(), &rdmadv1.ListConnectorsRequest{}); err != nil || len(all.GetConnectors()) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestConnectorsRefused(t *testing.T) {
	p := smallPlane()
	p.Connector(dataplane.ConnectorInfo{EndpointInfo: dataplane.EndpointInfo{Name: "out", Provider: "softiwarp", State: dataplane.StateUp}})
	c := rdmadv1.NewConnectorServiceClient(start(t, p, nil, 16).client)
	for what, r := range map[string]struct {
		change func(*rdmadv1.AddConnectorRequest)
		code   codes.Code
	}{
		"taken name":       {func(r *rdmadv1.AddConnectorRequest) { r.Name = "out" }, codes.AlreadyExists},
		"bad name":         {func(r *rdmadv1.AddConnectorRequest) { r.Name = "a b" }, codes.InvalidArgument},
		"no address":       {func(r *rdmadv1.AddConnectorRequest) { r.Listen = "" }, codes.InvalidArgument},
		"bad address":      {func(r *rdmadv1.AddConnectorRequest) { r.Listen = "here" }, codes.InvalidArgument},
		"no target":        {func(r *rdmadv1.AddConnectorRequest) { r.Target = "" }, codes.InvalidArgument},
		"unknown provider": {func(r *rdmadv1.AddConnectorRequest) { r.Provider = "magic" }, codes.NotFound},
		"negative time":    {func(r *rdmadv1.AddConnectorRequest) { r.DialTimeout = durationpb.New(-1) }, codes.InvalidArgument},
		"memory":           {func(r *rdmadv1.AddConnectorRequest) { r.MaxMemory = -1 }, codes.InvalidArgument},
		"allow":            {func(r *rdmadv1.AddConnectorRequest) { r.Admission = &rdmadv1.Admission{Allow: []string{"all"}} }, codes.InvalidArgument},
		"deny":             {func(r *rdmadv1.AddConnectorRequest) { r.Admission = &rdmadv1.Admission{Deny: []string{"all"}} }, codes.InvalidArgument},
	} {
		req := &rdmadv1.AddConnectorRequest{Name: "a", Listen: "127.0.0.1:0", Target: "nas:20049"}
		r.change(req)
		if _, err := c.AddConnector(t.Context(), req); status.Code(err) != r.code {
			t.Errorf("%s: %v, want %s", what, err, r.code)
		}
	}
	if _, err := c.RemoveConnector(t.Context(), &rdmadv1.RemoveConnectorRequest{Name: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("removed no one: %v", err)
	}
}
