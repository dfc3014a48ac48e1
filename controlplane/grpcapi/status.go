package grpcapi

import (
	"context"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/procmem"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// statusService implements rdmad.v1.StatusService.
type statusService struct {
	rdmadv1.UnimplementedStatusServiceServer
	cfg *Config
}

// GetStatus implements rdmadv1.StatusServiceServer.
func (s *statusService) GetStatus(ctx context.Context, _ *rdmadv1.GetStatusRequest) (*rdmadv1.GetStatusResponse, error) {
	id := auth.Peer(ctx)
	connections, totals := s.cfg.Plane.Totals()
	res := &rdmadv1.GetStatusResponse{
		Version:       s.cfg.Version,
		Started:       timestamp(s.cfg.Started),
		UptimeSeconds: time.Since(s.cfg.Started).Seconds(),
		Revision:      s.cfg.Store.Revision(),
		Listeners:     uint32(len(s.cfg.Plane.Listeners())),
		Connections:   uint32(connections),
		Actor:         id.Name,
		Role:          rdmadv1.Role(id.Role),
		Calls:         float64(totals.Calls),
		Errors:        float64(totals.Errors),
	}
	if p := s.cfg.Store.Pending(); p != nil {
		res.UnconfirmedRevision, res.ConfirmDeadline, res.UnconfirmedByFleet = p.Revision, timestamp(p.Deadline), p.Kind == history.Fleet
	}
	res.Providers = messages(s.cfg.Providers, provider)
	if s.cfg.Devices != nil {
		res.Devices = messages(s.cfg.Devices(), device)
	}
	if s.cfg.Memory != nil {
		res.Memory = memory(s.cfg.Memory())
	}
	if s.cfg.Descriptors != nil {
		d := s.cfg.Descriptors()
		res.Descriptors = &rdmadv1.Descriptors{
			Limit: uint32(d.Limit), Open: uint32(descriptors.Open()), Own: uint32(d.Own), Control: uint32(d.Control), Metrics: uint32(d.Metrics),
			Files: uint32(d.Files), Tcp: uint32(d.TCP), Rdma: uint32(d.RDMA), Problems: d.Unreachable,
		}
	}
	bad := s.cfg.Conditions.List().NotOK()
	res.Healthy, res.ConditionsNotOk = len(bad) == 0, uint32(len(bad))
	if len(bad) > 0 {
		res.WorstCondition = condition(&bad[0])
	}
	return res, nil
}

// memory is the process's memory as protobuf.
func memory(u procmem.Usage) *rdmadv1.Memory {
	return &rdmadv1.Memory{
		Limit: float64(u.Limit.Bytes), LimitSource: u.Limit.Source, LimitAsked: float64(u.Limit.Asked), Warning: u.Limit.Warning(),
		Mapped: float64(u.Mapped), GoRuntime: float64(u.Go), GoLimit: float64(u.GoLimit), Other: float64(u.Other),
		Resident: float64(u.Resident), PeakResident: float64(u.PeakResident),
	}
}
