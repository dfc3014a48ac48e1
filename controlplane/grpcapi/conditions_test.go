package grpcapi_test

import (
	"testing"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rdmad/rdmad/dataplane/conditions"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestConditions breaks and mends one thing. The list, the stream, the summary and the
// health service show both.
func TestConditions(t *testing.T) {
	plane := smallPlane()
	b := start(t, plane, nil, 16)
	c, h := rdmadv1.NewStatusServiceClient(b.client), healthpb.NewHealthClient(b.client)
	watch := have(c.WatchConditions(t.Context(), &rdmadv1.WatchConditionsRequest{}))(t)
	next := func(kind, name, reason string, removed bool) {
		t.Helper()
		e := have(watch.Recv())(t)
		if got := e.GetCondition(); got.GetKind() != kind || got.GetName() != name || got.GetReason() != reason || e.GetRemoved() != removed {
			t.Errorf("streamed %v, want %s %s %s", e, kind, name, reason)
		}
	}
	overall := have(h.Watch(t.Context(), &healthpb.HealthCheckRequest{}))(t)
	expect := func(bad int, want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		list, err := c.ListConditions(t.Context(), &rdmadv1.ListConditionsRequest{})
		if err != nil || list.GetHealthy() != (bad == 0) {
			t.Errorf("listed %v, %v", list, err)
		}
		s, err := c.GetStatus(t.Context(), &rdmadv1.GetStatusRequest{})
		if err != nil || s.GetHealthy() != (bad == 0) || int(s.GetConditionsNotOk()) != bad || (s.GetWorstCondition() == nil) != (bad == 0) {
			t.Errorf("status %v, %v", s, err)
		}
		if r, err := overall.Recv(); err != nil || r.GetStatus() != want {
			t.Errorf("watched %v, %v, want %v", r, err, want)
		}
		if err := b.server.Check(t.Context()); err != nil {
			t.Errorf("the service manager's watchdog would end rdmad: %v", err)
		}
	}
	next("listener", "nfs", "Accepting", false)
	next("service", "export", "Serving", false)
	expect(0, healthpb.HealthCheckResponse_SERVING)

	b.known.Set(conditions.Finding{Name: "nas", Reason: conditions.UpstreamGone, Message: "connection refused"})
	next("upstream", "nas", "Unreachable", false)
	expect(1, healthpb.HealthCheckResponse_NOT_SERVING)
	if r, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "upstream/nas"}); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("its own health: %v, %v", r, err)
	}
	list, err := c.ListConditions(t.Context(), &rdmadv1.ListConditionsRequest{})
	if err != nil || len(list.GetConditions()) != 3 {
		t.Fatalf("listed %v, %v", list, err)
	}
	if got := list.GetConditions()[2]; got.GetStatus() != rdmadv1.Condition_FAILED || got.GetMessage() != "connection refused" || got.GetRemedy() == "" || got.GetSince() == nil {
		t.Errorf("got %v", got)
	}

	b.known.Set(conditions.Finding{Name: "nas", Reason: conditions.UpstreamAnswers})
	next("upstream", "nas", "Answers", false)
	expect(0, healthpb.HealthCheckResponse_SERVING)
	b.known.Remove(conditions.Upstream, "nas")
	next("upstream", "nas", "Answers", true)
}
