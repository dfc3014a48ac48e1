package grpcapi

import (
	"cmp"
	"context"
	"strings"

	"github.com/rdmad/rdmad/controlplane/specproto"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// listenerService implements rdmad.v1.ListenerService.
type listenerService struct {
	rdmadv1.UnimplementedListenerServiceServer
	plane   Plane
	manager manager.API
}

// ListListeners implements rdmadv1.ListenerServiceServer.
func (s *listenerService) ListListeners(_ context.Context, req *rdmadv1.ListListenersRequest) (*rdmadv1.ListListenersResponse, error) {
	all, next, err := page(req, "listeners", s.manager.Listeners, listener)
	return &rdmadv1.ListListenersResponse{Listeners: all, NextPageToken: next}, err
}

// listener is the one place where a listener becomes protobuf.
func listener(l *manager.ListenerInfo) *rdmadv1.Listener {
	s := l.Spec
	if l.Live.Name != "" {
		s.Provider, s.Service, s.Limits, s.Access = l.Live.Provider, l.Live.Service, l.Live.Limits, l.Live.Access
		s.Address = cmp.Or(addrPort(l.Live.Address), s.Address)
	}
	m := &rdmadv1.Listener{
		Connections: uint32(l.Live.Connections),
		Accepted:    float64(l.Live.Accepted),
		Refused:     float64(l.Live.Refused),
		Since:       timestamp(l.Live.Since),
		Source:      l.Origin.String(),
		Admission:   &rdmadv1.Admission{},
		State:       rdmadv1.Listener_State(rdmadv1.Listener_State_value[strings.ToUpper(l.State)]),
		Failure:     l.Failure,
		Changed:     apiPaths(l.Spec, l.Changed),
	}
	specproto.Write(&s, m)
	return m
}

// AddListener implements rdmadv1.ListenerServiceServer.
func (s *listenerService) AddListener(ctx context.Context, req *rdmadv1.AddListenerRequest) (*rdmadv1.AddListenerResponse, error) {
	m, err := add(ctx, "listener", s.manager.Listeners, req, spec.Listener{Provider: defaultProvider}, listener)
	return &rdmadv1.AddListenerResponse{Listener: m}, err
}

// UpdateListener implements rdmadv1.ListenerServiceServer.
func (s *listenerService) UpdateListener(ctx context.Context, req *rdmadv1.UpdateListenerRequest) (*rdmadv1.UpdateListenerResponse, error) {
	m, ended, err := update(ctx, "listener", s.manager.Listeners, req, req.GetDisconnect(), listener)
	return &rdmadv1.UpdateListenerResponse{Listener: m, Disconnected: uint32(ended)}, err
}

// RemoveListener implements rdmadv1.ListenerServiceServer.
func (s *listenerService) RemoveListener(ctx context.Context, req *rdmadv1.RemoveListenerRequest) (*rdmadv1.RemoveListenerResponse, error) {
	drained, cut, err := remove(ctx, "listener", s.manager.Listeners, req)
	return &rdmadv1.RemoveListenerResponse{Drained: drained, Cut: cut}, err
}

// ListServices implements rdmadv1.ListenerServiceServer.
func (s *listenerService) ListServices(context.Context, *rdmadv1.ListServicesRequest) (*rdmadv1.ListServicesResponse, error) {
	return &rdmadv1.ListServicesResponse{Services: messages(s.manager.Services.List(), service)}, nil
}

// service is the one place where a service becomes protobuf.
func service(s *manager.ServiceInfo) *rdmadv1.Service {
	m := &rdmadv1.Service{
		Name:       s.Spec.Name,
		Kind:       s.Spec.Kind(),
		Source:     s.Origin.String(),
		Listeners:  s.Live.Listeners,
		TcpAddress: addrPort(s.Live.TCP),
		Draining:   s.State == manager.StateDraining,
		Failure:    s.Failure,
		Changed:    apiPaths(s.Spec, s.Changed),
	}
	specproto.Write(&s.Spec, m)
	return m
}

// AddService implements rdmadv1.ListenerServiceServer.
func (s *listenerService) AddService(ctx context.Context, req *rdmadv1.AddServiceRequest) (*rdmadv1.AddServiceResponse, error) {
	if n := req.GetNfs(); n != nil && n.GetPath() != "" && !strings.HasPrefix(n.GetPath(), "/") {
		return nil, invalidField("nfs.path", "must be absolute: rdmad's working directory is not yours")
	}
	m, err := add(ctx, "service", s.manager.Services, req, spec.Service{}, service)
	return &rdmadv1.AddServiceResponse{Service: m}, err
}

// UpdateService implements rdmadv1.ListenerServiceServer.
func (s *listenerService) UpdateService(ctx context.Context, req *rdmadv1.UpdateServiceRequest) (*rdmadv1.UpdateServiceResponse, error) {
	m, _, err := update(ctx, "service", s.manager.Services, req, false, service)
	return &rdmadv1.UpdateServiceResponse{Service: m}, err
}

// RemoveService implements rdmadv1.ListenerServiceServer.
func (s *listenerService) RemoveService(ctx context.Context, req *rdmadv1.RemoveServiceRequest) (*rdmadv1.RemoveServiceResponse, error) {
	_, _, err := remove(ctx, "service", s.manager.Services, req)
	return &rdmadv1.RemoveServiceResponse{}, err
}
