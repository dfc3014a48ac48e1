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
	return fmt.Sprintf("listener %s: %s %s service %s, limits %+v, allow %v, deny %v",
		l.Name, l.Provider, l.Address, l.Service, l.Limits, l.Access.Allow, l.Access.Deny)
}

// serviceText is a service as the audit log shows it.
func serviceText(s *manager.ServiceInfo) string {
	if n := s.Spec.NFS; n != nil {
		return fmt.Sprintf("service %s: nfs %+v", s.Spec.Name, *n)
	}
	return fmt.Sprintf("service %s: %s", s.Spec.Name, s.Spec.Kind())
}

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
	a := req.GetAdmission()
	allow, err := prefixes("admission.allow", a.GetAllow())
	if err != nil {
		return nil, err
	}
	deny, err := prefixes("admission.deny", a.GetDeny())
	if err != nil {
		return nil, err
	}
	info, err := s.manager.AddListener(ctx, manager.ListenerSpec{
		Name:     req.GetName(),
		Provider: cmp.Or(req.GetProvider(), defaultProvider),
		Address:  req.GetAddress(),
		Service:  req.GetService(),
		RPCBind:  req.GetRpcbind(),
		Limits:   limits(a),
		Allow:    allow,
		Deny:     deny,
	})
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
	if n := s.Spec.NFS; n != nil {
		m.Nfs = &rdmadv1.NfsService{
			Path: n.Path, ReadOnly: n.ReadOnly, Squash: n.Squash, AsyncMetadata: n.AsyncMetadata, TcpListen: n.TCPListen,
		}
	}
	if f := s.Spec.Forward; f != nil {
		m.Forward = &rdmadv1.ForwardService{
			Address: f.Address, DialTimeout: someTime(f.DialTimeout), CallTimeout: someTime(f.CallTimeout),
			CallbackTimeout: someTime(f.CallbackTimeout), ReservedPort: f.ReservedPort, MaxRecord: uint32(f.MaxRecord),
		}
	}
	return m
}

// someTime leaves out what is the default.
func someTime(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// AddService implements rdmadv1.ListenerServiceServer.
func (s *listenerService) AddService(ctx context.Context, req *rdmadv1.AddServiceRequest) (*rdmadv1.AddServiceResponse, error) {
	spec := manager.ServiceSpec{Name: req.GetName()}
	switch {
	case req.GetNfs() != nil:
		n := req.GetNfs()
		if !strings.HasPrefix(n.GetPath(), "/") {
			return nil, invalidField("nfs.path", "must be absolute: rdmad's working directory is not yours")
		}
		spec.NFS = &manager.NFSSpec{
			Path: n.GetPath(), ReadOnly: n.GetReadOnly(), Squash: n.GetSquash(),
			AsyncMetadata: n.GetAsyncMetadata(), TCPListen: n.GetTcpListen(),
		}
	case req.GetForward() != nil:
		f := req.GetForward()
		spec.Forward = &manager.ForwardSpec{
			Address: f.GetAddress(), DialTimeout: f.GetDialTimeout().AsDuration(), CallTimeout: f.GetCallTimeout().AsDuration(),
			CallbackTimeout: f.GetCallbackTimeout().AsDuration(), ReservedPort: f.GetReservedPort(), MaxRecord: int(f.GetMaxRecord()),
		}
	default:
		spec.Echo = &manager.EchoSpec{}
	}
	info, err := s.manager.AddService(ctx, spec)
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
