package planetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
)

// Manager is a manager.API over a Plane: listeners and services exist by
// name, and nothing is bound.
type Manager struct {
	plane    *Plane
	services []manager.ServiceInfo
	specs    map[string]manager.ListenerSpec
	limits   dataplane.Limits
}

// NewManager has the service export, which the plane's listeners name.
func NewManager(p *Plane) *Manager {
	m := &Manager{plane: p, specs: make(map[string]manager.ListenerSpec), limits: dataplane.Limits{Connections: 4096, Handshakes: 256}}
	m.services = []manager.ServiceInfo{{
		Spec: manager.ServiceSpec{Name: "export", NFS: &manager.NFSSpec{Path: "/srv"}}, State: manager.StateUp,
	}}
	return m
}

// Services implements manager.API.
func (m *Manager) Services() []manager.ServiceInfo {
	out := slices.Clone(m.services)
	for i := range out {
		for _, l := range m.plane.Listeners() {
			if l.Service == out[i].Spec.Name {
				out[i].Listeners = append(out[i].Listeners, l.Name)
			}
		}
	}
	return out
}

func (m *Manager) find(name string) int {
	return slices.IndexFunc(m.services, func(s manager.ServiceInfo) bool { return s.Spec.Name == name })
}

// missing is a directory that isn't there.
const missing = "/missing/"

// AddService implements manager.API.
func (m *Manager) AddService(_ context.Context, spec manager.ServiceSpec) (manager.ServiceInfo, error) {
	if m.find(spec.Name) >= 0 {
		return manager.ServiceInfo{}, &manager.ExistsError{What: "service", Name: spec.Name, State: manager.StateUp}
	}
	if n := spec.NFS; n != nil && strings.HasPrefix(n.Path, missing) {
		return manager.ServiceInfo{}, &manager.OpenError{Service: spec.Name, Err: fmt.Errorf("mkdir %s: %w", n.Path, os.ErrNotExist)}
	}
	s := manager.ServiceInfo{Spec: spec, Origin: manager.FromOperator, State: manager.StateUp}
	m.services = append(m.services, s)
	slices.SortFunc(m.services, func(a, b manager.ServiceInfo) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	return s, nil
}

// RemoveService implements manager.API.
func (m *Manager) RemoveService(name string, _ time.Duration) error {
	i := m.find(name)
	if i < 0 {
		return &manager.NotFoundError{What: "service", Name: name}
	}
	if used := m.Services()[i].Listeners; len(used) > 0 {
		return &manager.InUseError{Service: name, Listeners: used}
	}
	m.services = slices.Delete(m.services, i, i+1)
	return nil
}

// Listeners implements manager.API.
func (m *Manager) Listeners() []manager.ListenerInfo {
	all := m.plane.Listeners()
	out := make([]manager.ListenerInfo, 0, len(all))
	for _, l := range all {
		info := manager.ListenerInfo{ListenerInfo: l, Failure: l.Trouble}
		if spec, ok := m.specs[l.Name]; ok {
			info.Spec, info.Origin = spec, manager.FromOperator
		}
		out = append(out, info)
	}
	return out
}

func (m *Manager) listener(name string) (manager.ListenerInfo, error) {
	for _, l := range m.Listeners() {
		if l.Name == name {
			return l, nil
		}
	}
	return manager.ListenerInfo{}, &manager.NotFoundError{What: "listener", Name: name}
}

// AddListener implements manager.API. The port that 0 picks is 40000.
func (m *Manager) AddListener(_ context.Context, spec manager.ListenerSpec) (manager.ListenerInfo, error) {
	if _, err := m.listener(spec.Name); err == nil {
		return manager.ListenerInfo{}, &manager.ExistsError{What: "listener", Name: spec.Name, State: manager.StateUp}
	}
	if spec.Provider != "softiwarp" {
		return manager.ListenerInfo{}, &manager.UnknownError{What: "provider", Name: spec.Provider, Known: []string{"softiwarp"}}
	}
	if m.find(spec.Service) < 0 {
		return manager.ListenerInfo{}, &manager.NotFoundError{What: "service", Name: spec.Service, Known: []string{"export"}}
	}
	address := strings.TrimSuffix(spec.Address, ":0")
	if address != spec.Address {
		address += ":40000"
	}
	m.specs[spec.Name] = spec
	m.plane.listen(spec.Name, address, spec.Service, spec.Limits, dataplane.Access{Allow: spec.Allow, Deny: spec.Deny})
	return m.listener(spec.Name)
}

// RemoveListener implements manager.API.
func (m *Manager) RemoveListener(name string, _ time.Duration) (dataplane.Removed, error) {
	if _, err := m.listener(name); err != nil {
		return dataplane.Removed{}, err
	}
	return dataplane.Removed{Drained: m.plane.unlisten(name)}, nil
}

// UpdateListener implements manager.API.
func (m *Manager) UpdateListener(name string, u manager.ListenerUpdate) (manager.ListenerInfo, int, error) {
	if _, err := m.listener(name); err != nil {
		return manager.ListenerInfo{}, 0, err
	}
	ended := m.plane.update(name, u)
	info, err := m.listener(name)
	return info, ended, err
}

// Limits implements manager.API.
func (m *Manager) Limits() dataplane.Limits { return m.limits }

// SetLimits implements manager.API.
func (m *Manager) SetLimits(l dataplane.Limits) error {
	if err := l.Check(); err != nil {
		return err
	}
	m.limits = l
	return nil
}
