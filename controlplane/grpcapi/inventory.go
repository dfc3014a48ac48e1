package grpcapi

import (
	"context"
	"time"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// listenerService implements rdmad.v1.ListenerService.
type listenerService struct {
	rdmadv1.UnimplementedListenerServiceServer
	plane Plane
}

// ListListeners implements rdmadv1.ListenerServiceServer.
func (s *listenerService) ListListeners(context.Context, *rdmadv1.ListListenersRequest) (*rdmadv1.ListListenersResponse, error) {
	res := &rdmadv1.ListListenersResponse{}
	for _, l := range s.plane.Listeners() {
		res.Listeners = append(res.Listeners, &rdmadv1.Listener{
			Name:        l.Name,
			Provider:    l.Provider,
			Address:     addrPort(l.Address),
			Service:     l.Service,
			Connections: uint32(l.Connections),
			Accepted:    float64(l.Accepted),
			Refused:     float64(l.Refused),
			Since:       timestamp(l.Since),
		})
	}
	return res, nil
}

// statusService implements rdmad.v1.StatusService.
type statusService struct {
	rdmadv1.UnimplementedStatusServiceServer
	cfg *Config
}

// GetStatus implements rdmadv1.StatusServiceServer.
func (s *statusService) GetStatus(context.Context, *rdmadv1.GetStatusRequest) (*rdmadv1.GetStatusResponse, error) {
	connections := s.cfg.Plane.Connections()
	res := &rdmadv1.GetStatusResponse{
		Version:       s.cfg.Version,
		Started:       timestamp(s.cfg.Started),
		UptimeSeconds: time.Since(s.cfg.Started).Seconds(),
		Revision:      s.cfg.Store.Revision(),
		Listeners:     uint32(len(s.cfg.Plane.Listeners())),
		Connections:   uint32(len(connections)),
	}
	for i := range connections {
		res.Calls += float64(connections[i].Stats.Calls)
		res.Errors += float64(connections[i].Stats.Errors)
	}
	return res, nil
}
