package grpcapi

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/dataplane/manager"
)

// listenerPrefix begins the names of listeners, as scopes do.
const listenerPrefix = "listener/"

// healthLook is how often a watched listener is looked at.
const healthLook = time.Second

// healthService answers for listeners as well, by their scope: listener/NAME
// serves while clients can reach it. The daemon's own health, of the empty name,
// does not depend on them.
type healthService struct {
	*health.Server
	manager  manager.API
	stopping <-chan struct{}
}

// Check implements healthpb.HealthServer.
func (s *healthService) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	name, ok := strings.CutPrefix(req.GetService(), listenerPrefix)
	if !ok {
		return s.Server.Check(ctx, req)
	}
	state := s.listener(name)
	if state == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "no listener %s", name)
	}
	return &healthpb.HealthCheckResponse{Status: state}, nil
}

// Watch implements healthpb.HealthServer.
func (s *healthService) Watch(req *healthpb.HealthCheckRequest, stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	name, ok := strings.CutPrefix(req.GetService(), listenerPrefix)
	if !ok {
		return s.Server.Watch(req, stream)
	}
	t := time.NewTicker(healthLook)
	defer t.Stop()
	last := healthpb.HealthCheckResponse_ServingStatus(-1)
	for {
		if now := s.listener(name); now != last {
			last = now
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		select {
		case <-t.C:
		case <-s.stopping:
			return status.Error(codes.Unavailable, "shutting down")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// listener is the health of a listener.
func (s *healthService) listener(name string) healthpb.HealthCheckResponse_ServingStatus {
	for _, l := range s.manager.Listeners() {
		switch {
		case l.Name != name:
		case l.State == manager.StateUp:
			return healthpb.HealthCheckResponse_SERVING
		default:
			return healthpb.HealthCheckResponse_NOT_SERVING
		}
	}
	return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
}
