package grpcapi_test

import (
	"net/netip"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestConnectors: each field has what it says, a page at a time.
func TestConnectors(t *testing.T) {
	p := smallPlane()
	p.Connector(dataplane.ConnectorInfo{
		Name: "a", Provider: "softiwarp", Target: "nas:20049", Address: netip.MustParseAddrPort("127.0.0.1:22049"),
		State: dataplane.StateDraining, Connections: 1, Accepted: 2, Refused: 3, Since: planetest.Born,
		Limits: dataplane.Limits{Connections: 4, ConnectionsPerPeer: 5, Handshakes: 6},
		Access: dataplane.Access{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
		TCP: dataplane.ConnectorStats{
			Calls: 7, Replies: 8, Failed: 9, Duplicates: 10, Callbacks: 11, Unanswered: 12, Stray: 13, BytesReceived: 14, BytesSent: 15,
		},
	})
	p.Connector(dataplane.ConnectorInfo{Name: "b", State: dataplane.StateUp})
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
