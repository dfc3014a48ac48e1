package grpcapi

import (
	"context"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// statusService implements rdmad.v1.StatusService.
type statusService struct {
	rdmadv1.UnimplementedStatusServiceServer
	cfg *Config
}

// GetStatus implements rdmadv1.StatusServiceServer.
func (s *statusService) GetStatus(ctx context.Context, _ *rdmadv1.GetStatusRequest) (*rdmadv1.GetStatusResponse, error) {
	connections := s.cfg.Plane.Connections()
	id := auth.FromContext(ctx)
	res := &rdmadv1.GetStatusResponse{
		Version:       s.cfg.Version,
		Started:       timestamp(s.cfg.Started),
		UptimeSeconds: time.Since(s.cfg.Started).Seconds(),
		Revision:      s.cfg.Store.Revision(),
		Listeners:     uint32(len(s.cfg.Plane.Listeners())),
		Connections:   uint32(len(connections)),
		Actor:         id.Name,
		Role:          rdmadv1.Role(id.Role),
	}
	if p := s.cfg.Store.Pending(); p != nil {
		res.UnconfirmedRevision, res.ConfirmDeadline = p.Revision, timestamp(p.Deadline)
	}
	res.Providers, res.Devices = inventoried(s.cfg.Providers, s.cfg.Devices)
	for i := range connections {
		res.Calls += float64(connections[i].Stats.Calls)
		res.Errors += float64(connections[i].Stats.Errors)
	}
	return res, nil
}
