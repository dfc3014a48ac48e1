package grpcapi

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
	"github.com/rdmad/rdmad/dataplane/metrics"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// Ports has the limits of rdmad's own ports.
type Ports interface {
	PortLimits() port.OwnLimits
	// SetPortLimits changes them. They were checked.
	SetPortLimits(l port.OwnLimits) error
}

// GetLimits implements rdmadv1.ListenerServiceServer.
func (s *listenerService) GetLimits(context.Context, *rdmadv1.GetLimitsRequest) (*rdmadv1.GetLimitsResponse, error) {
	return &rdmadv1.GetLimitsResponse{Limits: s.limits()}, nil
}

// SetLimits implements rdmadv1.ListenerServiceServer.
func (s *listenerService) SetLimits(ctx context.Context, req *rdmadv1.SetLimitsRequest) (*rdmadv1.SetLimitsResponse, error) {
	m, before := req.GetLimits(), s.limits()
	ports, err := s.wantedPorts(m)
	if err != nil {
		return nil, err
	}
	if m.MaxMemory != nil {
		var bad *dataplane.MemoryError
		if err := s.plane.SetMemory(int64(m.GetMaxMemory())); errors.As(err, &bad) {
			return nil, invalidField("limits.max_memory", bad.Reason()+" bytes")
		} else if err != nil {
			return nil, toStatus(err)
		}
	}
	if err := s.setTCPLimits(m); err != nil {
		return nil, err
	}
	want := limits(m)
	if m.Idle == nil {
		want.Idle = s.manager.Limits().Idle
	}
	if err := s.manager.SetLimits(want); err != nil {
		return nil, toStatus(err)
	}
	if s.ports != nil && (m.Control != nil || m.Metrics != nil) {
		if err := s.ports.SetPortLimits(ports); err != nil {
			return nil, toStatus(err)
		}
	}
	after := s.limits()
	audit.Note(ctx, before.String(), after.String(), 0)
	return &rdmadv1.SetLimitsResponse{Limits: after}, nil
}

// wantedPorts are the limits of rdmad's own ports with what a request changes.
func (s *listenerService) wantedPorts(m *rdmadv1.Limits) (l port.OwnLimits, err error) {
	if s.ports != nil {
		l = s.ports.PortLimits()
	}
	if m.GetMetrics().GetReserved() != 0 {
		return l, invalidField("limits.metrics.reserved", "nobody proves to be an admin there; only limits.control has it")
	}
	if err := change(&l.Control, m.GetControl(), "limits.control."); err != nil {
		return l, err
	}
	return l, change(&l.Metrics, m.GetMetrics(), "limits.metrics.")
}

// change makes what a message has the limits of a port; field is where it stands.
func change(l *port.Limits, m *rdmadv1.PortLimits, field string) error {
	if m == nil {
		return nil
	}
	if m.MaxConnections != nil {
		l.Connections = int(m.GetMaxConnections())
	}
	if m.MaxConnectionsPerPeer != nil {
		l.ConnectionsPerPeer = int(m.GetMaxConnectionsPerPeer())
	}
	if m.Reserved != nil {
		l.Reserved = int(m.GetReserved())
	}
	if m.Idle != nil {
		l.Idle = m.GetIdle().AsDuration()
	}
	if bad, ok := errors.AsType[*port.LimitError](l.Check()); ok {
		return invalidField(field+strings.Replace(bad.Limit, "connections", "max_connections", 1), bad.Reason)
	}
	return nil
}

// setTCPLimits changes the limits of services on TCP that a request has.
func (s *listenerService) setTCPLimits(m *rdmadv1.Limits) error {
	l := s.plane.TCPLimits()
	if m.MaxTcpConnections != nil {
		l.Connections = int(m.GetMaxTcpConnections())
	}
	if m.MaxTcpConnectionsPerPeer != nil {
		l.ConnectionsPerPeer = int(m.GetMaxTcpConnectionsPerPeer())
	}
	if m.TcpIdle != nil {
		l.Idle = m.GetTcpIdle().AsDuration()
	}
	var idle *dataplane.TCPIdleError
	if err := s.plane.SetTCPLimits(l); errors.As(err, &idle) {
		return invalidField("limits.tcp_idle", idle.Reason())
	} else if err != nil {
		return toStatus(err)
	}
	return nil
}

// limits are those in force.
func (s *listenerService) limits() *rdmadv1.Limits {
	l, tcp := s.manager.Limits(), s.plane.TCPLimits()
	m := &rdmadv1.Limits{
		MaxMemory:             proto.Float64(float64(s.plane.Memory())),
		MaxConnections:        uint32(l.Connections),
		MaxConnectionsPerPeer: uint32(l.ConnectionsPerPeer),
		MaxHandshakes:         uint32(l.Handshakes),
		Idle:                  durationpb.New(l.Idle),

		MaxTcpConnections:        proto.Uint32(uint32(tcp.Connections)),
		MaxTcpConnectionsPerPeer: proto.Uint32(uint32(tcp.ConnectionsPerPeer)),
		TcpIdle:                  durationpb.New(tcp.Idle),
	}
	if s.ports != nil {
		p := s.ports.PortLimits()
		m.Control, m.Metrics = portLimits(p.Control.Over(DefaultClients())), portLimits(p.Metrics.Over(metrics.DefaultScrapers()))
		m.Metrics.Reserved = nil
	}
	return m
}

func portLimits(l connlimit.Limits) *rdmadv1.PortLimits {
	return &rdmadv1.PortLimits{
		MaxConnections: proto.Uint32(uint32(l.Total)), MaxConnectionsPerPeer: proto.Uint32(uint32(l.PerKey)),
		Reserved: proto.Uint32(uint32(l.Reserved)), Idle: durationpb.New(l.Idle),
	}
}
