package grpcapi_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// The health service answers for each listener, and for rdmad whatever its
// listeners are.
func TestListenerHealth(t *testing.T) {
	plane := smallPlane()
	b := start(t, plane, nil, 16)
	c := healthpb.NewHealthClient(b.client)
	expect := func(service string, want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service}); err != nil || r.GetStatus() != want {
			t.Errorf("%q is %v, %v, not %v", service, r.GetStatus(), err, want)
		}
	}
	expect("listener/nfs", healthpb.HealthCheckResponse_SERVING)
	if _, err := c.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "listener/none"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown one: %v", err)
	}
	watch := have(c.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "listener/nfs"}))(t)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING} {
		if r, err := watch.Recv(); err != nil || r.GetStatus() != want {
			t.Fatalf("watched %v, %v, not %v", r.GetStatus(), err, want)
		}
		plane.Degrade("nfs", "port 1 of rxe0 is DOWN")
	}
	expect("listener/nfs", healthpb.HealthCheckResponse_NOT_SERVING)
	expect("", healthpb.HealthCheckResponse_SERVING)
	expect("rdmad.v1.StatusService", healthpb.HealthCheckResponse_SERVING)
}
