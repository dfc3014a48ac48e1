package manager

import (
	"context"
	"errors"
	"fmt"
)

// Configure binds the services and listeners of the configuration file, which
// was checked. On an error the caller Closes.
func (m *Manager) Configure(ctx context.Context, services []ServiceSpec, listeners []ListenerSpec) error {
	m.op.Lock()
	defer m.op.Unlock()
	for i := range services {
		s, err := m.bindService(ctx, &services[i], FromFile)
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.services[s.spec.Name] = s
		m.mu.Unlock()
	}
	for i := range listeners {
		if _, err := m.bindListener(ctx, &listeners[i], FromFile); err != nil {
			return err
		}
	}
	return nil
}

// Open takes the services' directories and files. It follows Configure, so
// that an address in use leaves no directory behind.
func (m *Manager) Open() error {
	m.op.Lock()
	defer m.op.Unlock()
	for _, s := range m.all() {
		if err := s.running.Open(false); err != nil {
			return &OpenError{Service: s.spec.Name, Err: err}
		}
	}
	return nil
}

// all are the services that run, by name.
func (m *Manager) all() []*service {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*service
	for _, name := range sortedKeys(m.services) {
		if s := m.services[name]; s.running != nil {
			out = append(out, s)
		}
	}
	return out
}

// Restore brings back what operators added, and keeps there what they add from
// now on. What can't be brought back is logged and stays on the list, failed;
// the error is about the store alone.
func (m *Manager) Restore(ctx context.Context, store Store) error {
	m.op.Lock()
	defer m.op.Unlock()
	saved, err := store.Load()
	if err != nil {
		return fmt.Errorf("services and listeners added before: %w", err)
	}
	m.store = store
	for i := range saved.Services {
		m.restoreService(ctx, &saved.Services[i])
	}
	for i := range saved.Listeners {
		m.restoreListener(ctx, &saved.Listeners[i])
	}
	return nil
}

func (m *Manager) restoreService(ctx context.Context, spec *ServiceSpec) {
	if m.services[spec.Name] != nil {
		put(&m.shadowed.Services, *spec)
		m.warnShadowed("service", spec.Name)
		return
	}
	err := m.checkService(spec)
	var s *service
	if err == nil {
		s, err = m.bindService(ctx, spec, FromOperator)
	}
	if err == nil {
		if err = s.running.Open(true); err != nil {
			s.close(m)
		}
	}
	if err != nil {
		s = &service{spec: *spec, origin: FromOperator, state: StateFailed, failure: err.Error(), gone: make(chan struct{})}
		m.log.Error("service not brought back", "service", spec.Name, "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services[spec.Name] = s
}

func (m *Manager) restoreListener(ctx context.Context, spec *ListenerSpec) {
	if m.listeners[spec.Name] != nil {
		put(&m.shadowed.Listeners, *spec)
		m.warnShadowed("listener", spec.Name)
		return
	}
	err := m.checkListener(spec)
	if err == nil {
		_, err = m.bindListener(ctx, spec, FromOperator)
	}
	if err == nil {
		return
	}
	m.log.Error("listener not brought back", "listener", spec.Name, "error", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners[spec.Name] = &listener{spec: *spec, origin: FromOperator, state: StateFailed, failure: err.Error()}
}

func (m *Manager) warnShadowed(what, name string) {
	m.log.Warn("what the configuration file names stands in for one of the same name that was added before; "+
		"rename it in the file to have both, or remove it by rdmactl to forget the one added", what, name)
}

// Start serves over TCP. What is added from now on starts at once.
func (m *Manager) Start() {
	m.op.Lock()
	defer m.op.Unlock()
	for _, s := range m.all() {
		s.running.Start()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started = true
}

// Shutdown takes no more changes and lets calls over TCP finish, of all
// services at once, until ctx ends.
func (m *Manager) Shutdown(ctx context.Context) error {
	all := m.stop()
	errs := make(chan error, len(all))
	for _, s := range all {
		go func() { errs <- s.running.Shutdown(ctx) }()
	}
	out := make([]error, 0, len(all))
	for range all {
		out = append(out, <-errs)
	}
	return errors.Join(out...)
}

// stop has every change from now on fail, and waits for the one being made.
func (m *Manager) stop() []*service {
	m.op.Lock()
	defer m.op.Unlock()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	return m.all()
}

// Close frees the services. Nobody calls them any more over RDMA. It may be
// called more than once.
func (m *Manager) Close() {
	for _, s := range m.stop() {
		if s.state == StateDraining { // who removes it closes it
			<-s.gone
			continue
		}
		s.close(m)
		m.forget(s)
	}
}
