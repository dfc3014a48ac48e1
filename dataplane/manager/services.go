package manager

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// AddService implements API.
func (m *Manager) AddService(ctx context.Context, spec ServiceSpec) (ServiceInfo, error) {
	if err := m.checkService(&spec); err != nil {
		return ServiceInfo{}, err
	}
	m.op.Lock()
	defer m.op.Unlock()
	s, err := m.bindService(ctx, &spec, FromOperator)
	if err != nil {
		return ServiceInfo{}, err
	}
	if err := s.running.Open(false); err != nil {
		s.close(m)
		return ServiceInfo{}, &OpenError{Service: spec.Name, Err: err}
	}
	if err := m.save(func(all *Saved) { put(&all.Services, spec) }); err != nil {
		s.close(m)
		return ServiceInfo{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services[spec.Name] = s
	if m.started {
		s.running.Start()
	}
	m.log.Info("service added", "service", spec.Name, "kind", spec.Kind())
	return m.serviceInfoLocked(s), nil
}

// bindService makes a service that nobody knows yet. op is held.
func (m *Manager) bindService(ctx context.Context, spec *ServiceSpec, origin Origin) (*service, error) {
	m.mu.Lock()
	there, closed := m.services[spec.Name], m.closed
	m.mu.Unlock()
	if closed {
		return nil, dataplane.ErrShutdown
	}
	if there != nil && there.state != StateFailed {
		return nil, &ExistsError{What: "service", Name: spec.Name, State: there.state}
	}
	mk := m.cfg.Kinds[spec.Kind()]
	if mk == nil {
		return nil, &UnknownError{What: "kind of service", Name: spec.Kind(), Known: sortedKeys(m.cfg.Kinds)}
	}
	running, err := mk(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &service{spec: *spec, origin: origin, state: StateUp, running: running, gone: make(chan struct{})}, nil
}

// RemoveService implements API.
func (m *Manager) RemoveService(name string, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	s, first, err := m.leaveService(name)
	if err != nil {
		return err
	}
	if s.running == nil {
		m.forget(s)
		return nil
	}
	if err := s.running.Shutdown(ctx); err != nil {
		m.log.Warn("service removed with calls over TCP unfinished", "service", name, "error", err)
	}
	if !first {
		<-s.gone
		return nil
	}
	s.close(m)
	m.forget(s)
	m.log.Info("service removed", "service", name)
	return nil
}

// leaveService marks a service as going, and writes that down, unless that was
// done already.
func (m *Manager) leaveService(name string) (s *service, first bool, err error) {
	m.op.Lock()
	defer m.op.Unlock()
	m.mu.Lock()
	s = m.services[name]
	users, known, closed := m.usersLocked(name), sortedKeys(m.services), m.closed
	m.mu.Unlock()
	switch {
	case closed:
		return nil, false, dataplane.ErrShutdown
	case s == nil:
		return nil, false, &NotFoundError{What: "service", Name: name, Known: known}
	case s.state == StateDraining:
		return s, false, nil
	case len(users) > 0:
		return nil, false, &InUseError{Service: name, Listeners: users}
	}
	if err := m.save(func(all *Saved) { drop(&all.Services, name) }); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	s.state = StateDraining
	m.mu.Unlock()
	return s, true, nil
}

// forget takes a service that has ended off the list.
func (m *Manager) forget(s *service) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.services[s.spec.Name] == s {
		delete(m.services, s.spec.Name)
		close(s.gone)
	}
}

// close frees what a service holds.
func (s *service) close(m *Manager) {
	if err := s.running.Close(); err != nil {
		m.log.Warn("service not closed", "service", s.spec.Name, "error", err)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
