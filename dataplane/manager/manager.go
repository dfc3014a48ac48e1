package manager

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Service is what answers calls, over RDMA through listeners and perhaps over
// TCP. It was bound when it was made.
type Service interface {
	// Handler answers after Open.
	oncrpc.Handler
	// Open takes directories and files; once, before Start. A service that was
	// there before a restart (again) finds what it had or fails: what is missing
	// may be a file system that isn't mounted.
	Open(again bool) error
	// Start serves over TCP, if it does that at all, and returns.
	Start()
	// TCP is where it is bound; invalid when it isn't.
	TCP() netip.AddrPort
	// Registrations are those of the service at an address of RDMA.
	Registrations(rdma netip.AddrPort) []rpcbind.Registration
	// Shutdown lets calls over TCP finish until ctx ends.
	Shutdown(ctx context.Context) error
	// Close frees everything; nobody calls it any more over RDMA.
	Close() error
}

// Maker makes a service of one kind and binds its addresses. The error of an
// address is an *AddressError.
type Maker func(ctx context.Context, s *ServiceSpec) (Service, error)

// Registrar tells rpcbind where services are.
type Registrar interface {
	// Set replaces all registrations, or none of them on an error.
	Set(list []rpcbind.Registration) error
}

// Config is what a Manager is made with; all but Registrar is needed.
type Config struct {
	Dataplane *dataplane.Dataplane
	// Provider gives the provider of a name in Providers, made at first use;
	// it is called by one goroutine at a time.
	Provider  func(name string) (rdmacm.Provider, error)
	Providers []string
	Kinds     map[string]Maker // by ServiceSpec.Kind
	Registrar Registrar        // nil when listeners can't be registered
	Logger    *slog.Logger
}

// Manager adds and removes services and listeners.
//
// Lock order: op, then mu. Under op addresses are bound, directories taken and
// additions written down, but nobody is waited for that may take longer; under
// mu nothing is waited for.
type Manager struct {
	cfg Config
	log *slog.Logger

	op    sync.Mutex // one change after another
	store Store      // nil before Restore

	mu        sync.Mutex
	started   bool
	closed    bool
	services  map[string]*service
	listeners map[string]*listener
	shadowed  Saved // additions whose names the configuration file has taken
}

var _ API = (*Manager)(nil)

// service is a service that is there, going, or could not be brought back.
type service struct {
	spec    ServiceSpec
	origin  Origin
	state   string
	failure string
	running Service       // nil with StateFailed
	gone    chan struct{} // closed when it has been removed
}

// listener is a listener that is there, going, or could not be brought back.
type listener struct {
	spec    ListenerSpec
	origin  Origin
	state   string
	failure string
	bound   netip.AddrPort
}

// New makes a manager of nothing.
func New(cfg Config) *Manager {
	return &Manager{
		cfg:       cfg,
		log:       cfg.Logger,
		services:  make(map[string]*service),
		listeners: make(map[string]*listener),
	}
}

// Services implements API.
func (m *Manager) Services() []ServiceInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]ServiceInfo, 0, len(m.services))
	for _, s := range m.services {
		out = append(out, m.serviceInfoLocked(s))
	}
	slices.SortFunc(out, func(a, b ServiceInfo) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) })
	return out
}

func (m *Manager) serviceInfoLocked(s *service) ServiceInfo {
	info := ServiceInfo{Spec: s.spec, Origin: s.origin, State: s.state, Failure: s.failure, Listeners: m.usersLocked(s.spec.Name)}
	if s.running != nil {
		info.TCP = s.running.TCP()
	}
	return info
}

// usersLocked are the listeners that hand calls to a service, or will when
// they are brought back.
func (m *Manager) usersLocked(service string) []string {
	var names []string
	for name, l := range m.listeners {
		if l.spec.Service == service {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Listeners implements API.
func (m *Manager) Listeners() []ListenerInfo {
	live := make(map[string]dataplane.ListenerInfo)
	for _, l := range m.cfg.Dataplane.Listeners() {
		live[l.Name] = l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]ListenerInfo, 0, len(m.listeners))
	for name, l := range m.listeners {
		info, ok := live[name]
		if !ok { // failed, or added or removed at this moment
			info = dataplane.ListenerInfo{
				Name: name, Provider: l.spec.Provider, Service: l.spec.Service, State: l.state,
				Address: l.bound, Limits: l.spec.Limits, Access: l.spec.Access,
			}
		}
		out = append(out, ListenerInfo{ListenerInfo: info, Spec: l.spec, Origin: l.origin, Failure: cmp.Or(l.failure, info.Trouble)})
	}
	slices.SortFunc(out, func(a, b ListenerInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// listener describes one listener.
func (m *Manager) listener(name string) ListenerInfo {
	for _, l := range m.Listeners() {
		if l.Name == name {
			return l
		}
	}
	return ListenerInfo{}
}

// Limits implements API.
func (m *Manager) Limits() dataplane.Limits { return m.cfg.Dataplane.Limits() }

// SetLimits implements API.
func (m *Manager) SetLimits(l dataplane.Limits) error {
	if err := m.cfg.Dataplane.SetLimits(l); err != nil {
		return invalid("limits", err)
	}
	return nil
}

// register tells rpcbind of the listeners that want it. op is held.
func (m *Manager) register() error {
	if m.cfg.Registrar == nil {
		return nil
	}
	m.mu.Lock()
	var list []rpcbind.Registration
	for _, name := range slices.Sorted(maps.Keys(m.listeners)) {
		l := m.listeners[name]
		if l.spec.RPCBind && l.state == StateUp {
			list = append(list, m.services[l.spec.Service].running.Registrations(l.bound)...)
		}
	}
	m.mu.Unlock()
	return m.cfg.Registrar.Set(list)
}
