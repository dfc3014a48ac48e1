package grpcapi_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

func TestWatchTelemetry(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewTelemetryServiceClient(b.client)
	stream, err := c.WatchTelemetry(t.Context(), &rdmadv1.WatchTelemetryRequest{Interval: durationpb.New(100 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	for calls := uint64(1000); ; calls += 1000 {
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(res.GetConnections()) != 2 || len(res.GetListeners()) != 1 || res.GetSeconds() <= 0 || res.GetTime() == nil {
			t.Fatalf("%v", res)
		}
		if res.GetTotal().GetCalls() > 0 && res.GetConnections()[0].GetRates().GetCalls() == res.GetTotal().GetCalls() {
			break // what happened between two samples is in the second
		}
		b.plane.Count("1", func(c *dataplane.ConnInfo) { c.Stats.Calls += calls })
	}
	if err := b.server.Shutdown(t.Context()); err != nil {
		t.Errorf("a stream keeps the server from ending: %v", err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("ended with %v", err)
	}
	late := rdmadv1.NewTelemetryServiceClient(start(t, smallPlane(), nil, 16).client)
	hasty, err := late.WatchTelemetry(t.Context(), &rdmadv1.WatchTelemetryRequest{Interval: durationpb.New(time.Millisecond)})
	if err == nil {
		_, err = hasty.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("too often: %v", err)
	}
}

// TestWatchPartOfTelemetry: a request chooses fields and connections; the total
// counts all connections.
func TestWatchPartOfTelemetry(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewTelemetryServiceClient(b.client)
	for _, tc := range []struct {
		name  string
		req   *rdmadv1.WatchTelemetryRequest
		conns []string
		total bool
	}{
		{"all", &rdmadv1.WatchTelemetryRequest{}, []string{"1", "2"}, true},
		{"busy", &rdmadv1.WatchTelemetryRequest{BusyOnly: true}, []string{"2"}, true},
		{"some", &rdmadv1.WatchTelemetryRequest{ConnectionIds: []string{"1", "gone"}}, []string{"1"}, true},
		{"total", &rdmadv1.WatchTelemetryRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"time", "total"}}}, nil, true},
		{"connections", &rdmadv1.WatchTelemetryRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"connections"}}}, []string{"1", "2"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.req.Interval = durationpb.New(100 * time.Millisecond)
			stream := have(c.WatchTelemetry(t.Context(), tc.req))(t)
			for {
				// Until the stream has begun, what is counted is in no sample.
				b.plane.Count("2", func(c *dataplane.ConnInfo) { c.Stats.Calls += 100 })
				res := have(stream.Recv())(t)
				var ids []string
				for _, one := range res.GetConnections() {
					ids = append(ids, one.GetId())
				}
				if (res.GetTotal() != nil) != tc.total || tc.name == "total" && (res.GetSeconds() != 0 || len(res.GetListeners()) > 0) {
					t.Fatalf("%v", res)
				}
				if tc.total && res.GetTotal().GetCalls() == 0 {
					continue
				}
				if !slices.Equal(ids, tc.conns) {
					t.Errorf("connections %v, want %v", ids, tc.conns)
				}
				return
			}
		})
	}
	stream, err := c.WatchTelemetry(t.Context(), &rdmadv1.WatchTelemetryRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"rates"}}})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a field that does not exist: %v", err)
	}
}

func TestAdvise(t *testing.T) {
	p := smallPlane()
	var sizes rpcrdma.Sizes
	sizes.Replies[13] = 900
	p.Connect(planetest.Peer{
		ID: "3", Listener: "nfs", Address: "192.0.2.9:1", Stats: rpcrdma.Stats{Calls: 1000, RDMAWrites: 900}, Sizes: sizes,
	})
	p.Count("3", func(c *dataplane.ConnInfo) { c.PeerReceive, c.PeerReceiveSize = 4096, 16384 })
	c := rdmadv1.NewTelemetryServiceClient(start(t, p, nil, 16).client)
	res, err := c.AdviseSettings(t.Context(), &rdmadv1.AdviseSettingsRequest{})
	if err != nil || res.GetConnections() != 3 || res.GetCalls() != 1003 || len(res.GetAdvice()) != 1 {
		t.Fatalf("%v, %v", res, err)
	}
	a := res.GetAdvice()[0]
	if !slices.Equal(a.GetAssignments(), []string{"inline.send_max=9216", "ddp.min_chunk=9216"}) || a.GetSettings().GetInline().GetSendMax() != 9216 || a.GetSettings().GetDdp().GetMinChunk() != 9216 ||
		a.GetRdmaOperationsSaved() != 900 || a.GetOutcome() != rdmadv1.Effect_PENDING_RECONNECT {
		t.Errorf("%v", a)
	}
	res, err = c.AdviseSettings(t.Context(), &rdmadv1.AdviseSettingsRequest{Scope: "connection/1"})
	if err != nil || res.GetConnections() != 1 || len(res.GetAdvice()) != 0 {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := c.AdviseSettings(t.Context(), &rdmadv1.AdviseSettingsRequest{Scope: "connection/99"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
}
