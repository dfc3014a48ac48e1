package grpcapi

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/dataplane/conditions"
)

// healthService shows the conditions: that of KIND/NAME, such as listener/nfs,
// serves while it is OK, and rdmad as a whole, of the empty name, while nothing has
// failed. The services of the API serve until rdmad ends, whatever the conditions.
type healthService struct {
	*health.Server
	conditions *conditions.Registry
	stopping   <-chan struct{}
}

// Check implements healthpb.HealthServer.
func (s *healthService) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	name := req.GetService()
	if !ofConditions(name) {
		return s.Server.Check(ctx, req)
	}
	state := s.state(name)
	if state == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "no %s", strings.Replace(name, "/", " ", 1))
	}
	return &healthpb.HealthCheckResponse{Status: state}, nil
}

// Watch implements healthpb.HealthServer.
func (s *healthService) Watch(req *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	name := req.GetService()
	if !ofConditions(name) {
		return s.Server.Watch(req, stream)
	}
	w := s.conditions.Watch()
	defer w.Close()
	last := healthpb.HealthCheckResponse_ServingStatus(-1)
	for w.Next(stream.Context().Done()) {
		now := s.state(name)
		if now == last {
			continue
		}
		last = now
		if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
			return err
		}
	}
	return stream.Context().Err()
}

// ofConditions says whether the conditions decide on a name's health.
func ofConditions(name string) bool { return name == "" || strings.Contains(name, "/") }

func (s *healthService) state(name string) healthpb.HealthCheckResponse_ServingStatus {
	select {
	case <-s.stopping:
		return healthpb.HealthCheckResponse_NOT_SERVING
	default:
	}
	all := s.conditions.List()
	well := !all.Failed()
	if name != "" {
		kind, thing, _ := strings.Cut(name, "/")
		c := all.Find(conditions.Kind(kind), thing)
		if c == nil {
			return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
		}
		well = c.Status() == conditions.OK
	}
	if well {
		return healthpb.HealthCheckResponse_SERVING
	}
	return healthpb.HealthCheckResponse_NOT_SERVING
}
