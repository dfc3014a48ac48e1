package grpcapi

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// listenerService implements rdmad.v1.ListenerService.
type listenerService struct {
	rdmadv1.UnimplementedListenerServiceServer
	plane   Plane
	manager manager.API
	ports   Ports // nil without ports whose limits can be changed
}

const maxListeners = 1000 // of one answer

// ListListeners implements rdmadv1.ListenerServiceServer.
func (s *listenerService) ListListeners(_ context.Context, req *rdmadv1.ListListenersRequest) (*rdmadv1.ListListenersResponse, error) {
	after, err := afterToken(req.GetPageToken(), "listeners")
	if err != nil {
		return nil, err
	}
	size := cmp.Or(int(req.GetPageSize()), maxListeners)
	res := &rdmadv1.ListListenersResponse{}
	all := s.manager.Listeners()
	for i := range all {
		if all[i].Name <= after {
			continue
		}
		if len(res.Listeners) == size {
			res.NextPageToken = pageToken(res.Listeners[size-1].GetName(), "listeners")
			break
		}
		res.Listeners = append(res.Listeners, listener(&all[i]))
	}
	return res, nil
}

// listener is the one place where a listener becomes protobuf.
func listener(l *manager.ListenerInfo) *rdmadv1.Listener {
	m := &rdmadv1.Listener{
		Name:        l.Name,
		Provider:    cmp.Or(l.Provider, l.Spec.Provider),
		Address:     cmp.Or(addrPort(l.Address), l.Spec.Address),
		Service:     cmp.Or(l.Service, l.Spec.Service),
		Connections: uint32(l.Connections),
		Accepted:    float64(l.Accepted),
		Refused:     float64(l.Refused),
		Since:       timestamp(l.Since),
		Source:      l.Origin.String(),
		Rpcbind:     l.Spec.RPCBind,
		Admission:   admission(&l.Limits, &l.Access),
		State:       rdmadv1.Listener_UP,
		Failure:     l.Failure,
	}
	switch l.State {
	case manager.StateDraining:
		m.State = rdmadv1.Listener_DRAINING
	case manager.StateDegraded:
		m.State = rdmadv1.Listener_DEGRADED
	case manager.StateFailed:
		m.State = rdmadv1.Listener_FAILED
	}
	return m
}

// listenerText is a listener as the audit log shows it.
func listenerText(l *manager.ListenerInfo) string {
	now := l.Spec
	now.Limits, now.Access = l.Limits, l.Access
	return "listener " + spec.String(&now)
}

// serviceText is a service as the audit log shows it.
func serviceText(s *manager.ServiceInfo) string { return "service " + spec.String(&s.Spec) }

func prefixTexts(all []netip.Prefix) []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.String()
	}
	return out
}

// prefixes reads the addresses and CIDRs of a request's field.
func prefixes(field string, texts []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		p, err := dataplane.ParsePrefix(text)
		if err != nil {
			return nil, invalidField(fmt.Sprintf("%s[%d]", field, i), err.Error())
		}
		out[i] = p
	}
	return out, nil
}

const defaultProvider = "softiwarp"

// AddListener implements rdmadv1.ListenerServiceServer.
func (s *listenerService) AddListener(ctx context.Context, req *rdmadv1.AddListenerRequest) (*rdmadv1.AddListenerResponse, error) {
	want := manager.ListenerSpec{Provider: defaultProvider}
	if err := readSpec(req, &want); err != nil {
		return nil, err
	}
	info, err := s.manager.AddListener(ctx, want)
	if err != nil {
		return nil, toStatus(err)
	}
	audit.Note(ctx, "", listenerText(&info), 0)
	return &rdmadv1.AddListenerResponse{Listener: listener(&info)}, nil
}

// bounding is what says limits.
type bounding interface {
	GetMaxConnections() uint32
	GetMaxConnectionsPerPeer() uint32
	GetMaxHandshakes() uint32
	GetIdle() *durationpb.Duration
}

func limits(m bounding) dataplane.Limits {
	return dataplane.Limits{
		Connections:        int(m.GetMaxConnections()),
		ConnectionsPerPeer: int(m.GetMaxConnectionsPerPeer()),
		Handshakes:         int(m.GetMaxHandshakes()),
		Idle:               m.GetIdle().AsDuration(),
	}
}

// UpdateListener implements rdmadv1.ListenerServiceServer.
func (s *listenerService) UpdateListener(ctx context.Context, req *rdmadv1.UpdateListenerRequest) (*rdmadv1.UpdateListenerResponse, error) {
	update, err := s.update(req)
	if err != nil {
		return nil, err
	}
	before, err := s.find(req.GetName())
	if err != nil {
		return nil, err
	}
	info, ended, err := s.manager.UpdateListener(req.GetName(), update)
	if err != nil {
		return nil, toStatus(err)
	}
	audit.Note(ctx, listenerText(before), listenerText(&info), 0)
	return &rdmadv1.UpdateListenerResponse{Listener: listener(&info), Disconnected: uint32(ended)}, nil
}

// update reads what a request changes: the fields of its mask.
func (s *listenerService) update(req *rdmadv1.UpdateListenerRequest) (u manager.ListenerUpdate, err error) {
	mask, err := newMask("update_mask", req.GetUpdateMask(), &rdmadv1.Admission{})
	if err != nil {
		return u, err
	}
	u.EndDenied = req.GetDisconnect()
	a := req.GetAdmission()
	if mask.hasAny("max_connections", "max_connections_per_peer", "max_handshakes", "idle") {
		want := limits(a)
		u.Limits = func(l *dataplane.Limits) {
			if mask.hasAny("max_connections") {
				l.Connections = want.Connections
			}
			if mask.hasAny("max_connections_per_peer") {
				l.ConnectionsPerPeer = want.ConnectionsPerPeer
			}
			if mask.hasAny("max_handshakes") {
				l.Handshakes = want.Handshakes
			}
			if mask.hasAny("idle") {
				l.Idle = want.Idle
			}
		}
	}
	for _, list := range []struct {
		name  string
		texts []string
		to    **[]netip.Prefix
	}{{"allow", a.GetAllow(), &u.Allow}, {"deny", a.GetDeny(), &u.Deny}} {
		if !mask.hasAny(list.name) {
			continue
		}
		parsed, err := prefixes("admission."+list.name, list.texts)
		if err != nil {
			return u, err
		}
		*list.to = &parsed
	}
	return u, nil
}

func (s *listenerService) find(name string) (*manager.ListenerInfo, error) {
	all := s.manager.Listeners()
	i := slices.IndexFunc(all, func(l manager.ListenerInfo) bool { return l.Name == name })
	if i < 0 {
		return nil, toStatus(fmt.Errorf("listener %s: %w", name, dataplane.ErrNotFound))
	}
	return &all[i], nil
}

// RemoveListener implements rdmadv1.ListenerServiceServer.
func (s *listenerService) RemoveListener(ctx context.Context, req *rdmadv1.RemoveListenerRequest) (*rdmadv1.RemoveListenerResponse, error) {
	before, err := s.find(req.GetName())
	if err != nil {
		return nil, err
	}
	removed, err := s.manager.RemoveListener(req.GetName(), drainTime(req.GetDeadline()))
	if err != nil {
		return nil, toStatus(err)
	}
	audit.Note(ctx, listenerText(before), "", 0)
	return &rdmadv1.RemoveListenerResponse{Drained: uint32(removed.Drained), Cut: uint32(removed.Cut)}, nil
}

func drainTime(deadline *durationpb.Duration) time.Duration {
	if deadline == nil {
		return defaultDrain
	}
	return deadline.AsDuration()
}

// ListServices implements rdmadv1.ListenerServiceServer.
func (s *listenerService) ListServices(context.Context, *rdmadv1.ListServicesRequest) (*rdmadv1.ListServicesResponse, error) {
	res := &rdmadv1.ListServicesResponse{}
	all := s.manager.Services()
	for i := range all {
		res.Services = append(res.Services, service(&all[i]))
	}
	return res, nil
}

// service is the one place where a service becomes protobuf.
func service(s *manager.ServiceInfo) *rdmadv1.Service {
	m := &rdmadv1.Service{
		Name:       s.Spec.Name,
		Kind:       s.Spec.Kind(),
		Source:     s.Origin.String(),
		Listeners:  s.Listeners,
		TcpAddress: addrPort(s.TCP),
		Draining:   s.State == manager.StateDraining,
		Failure:    s.Failure,
	}
	writeSpec(&s.Spec, m)
	return m
}

// AddService implements rdmadv1.ListenerServiceServer.
func (s *listenerService) AddService(ctx context.Context, req *rdmadv1.AddServiceRequest) (*rdmadv1.AddServiceResponse, error) {
	var want manager.ServiceSpec
	if err := readSpec(req, &want); err != nil {
		return nil, err
	}
	if n := want.NFS; n != nil && !strings.HasPrefix(n.Path, "/") {
		return nil, invalidField("nfs.path", "must be absolute: rdmad's working directory is not yours")
	}
	info, err := s.manager.AddService(ctx, want)
	if err != nil {
		return nil, toStatus(err)
	}
	audit.Note(ctx, "", serviceText(&info), 0)
	return &rdmadv1.AddServiceResponse{Service: service(&info)}, nil
}

// RemoveService implements rdmadv1.ListenerServiceServer.
func (s *listenerService) RemoveService(ctx context.Context, req *rdmadv1.RemoveServiceRequest) (*rdmadv1.RemoveServiceResponse, error) {
	if err := s.manager.RemoveService(req.GetName(), drainTime(req.GetDeadline())); err != nil {
		return nil, toStatus(err)
	}
	audit.Note(ctx, "service "+req.GetName(), "", 0)
	return &rdmadv1.RemoveServiceResponse{}, nil
}
