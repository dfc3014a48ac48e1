package manager

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// Reload makes the file's services and listeners those of a new version of it,
// which was checked. What is the same in both goes on untouched; of a listener
// whose limits or access alone are others, the connections, too. Listeners
// that go, or come back changed, are drained, at most for as long as drain
// says. What operators added stays, but for names that the file has now.
//
// It does all that can be done; the error names what could not.
func (m *Manager) Reload(ctx context.Context, services []ServiceSpec, listeners []ListenerSpec, drain time.Duration) error {
	p := m.plan(services, listeners)
	errs := append(p.errs, m.removeListeners(p.goListeners, drain)...)
	for _, name := range p.goServices {
		errs = append(errs, m.RemoveService(name, drain))
	}
	m.op.Lock()
	defer m.op.Unlock()
	errs = append(errs, m.shadow(&p.shadow))
	for i := range p.addServices {
		errs = append(errs, m.addFileService(ctx, &p.addServices[i]))
	}
	for i := range p.addListeners {
		_, err := m.bindListener(ctx, &p.addListeners[i], FromFile)
		errs = append(errs, err)
	}
	for i := range p.update {
		errs = append(errs, m.updateFileListener(&p.update[i]))
	}
	return errors.Join(errs...)
}

// plan is what a new version of the file asks for.
type plan struct {
	goServices, goListeners []string
	addServices             []ServiceSpec
	addListeners, update    []ListenerSpec
	shadow                  Saved // additions whose names the file has now
	errs                    []error
}

func (m *Manager) plan(services []ServiceSpec, listeners []ListenerSpec) *plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := new(plan)
	for _, s := range services {
		there := m.services[s.Name]
		switch {
		case there == nil:
		case there.origin == FromFile && reflect.DeepEqual(there.spec, s):
			continue
		case !m.mayGoLocked(p, there):
			continue
		}
		if there != nil && there.origin == FromOperator {
			put(&p.shadow.Services, there.spec)
		}
		p.addServices = append(p.addServices, s)
	}
	for name, there := range m.services {
		if there.origin == FromFile && !slices.ContainsFunc(services, func(s ServiceSpec) bool { return s.Name == name }) {
			m.mayGoLocked(p, there)
		}
	}
	m.planListenersLocked(p, listeners)
	return p
}

// mayGoLocked puts a service on the list of those to be removed, or its users
// among the errors when they are not the file's.
func (m *Manager) mayGoLocked(p *plan, s *service) bool {
	users := slices.DeleteFunc(m.usersLocked(s.spec.Name), func(name string) bool { return m.listeners[name].origin == FromFile })
	if len(users) > 0 {
		p.errs = append(p.errs, &InUseError{Service: s.spec.Name, Listeners: users})
		return false
	}
	p.goServices = append(p.goServices, s.spec.Name)
	return true
}

func (m *Manager) planListenersLocked(p *plan, listeners []ListenerSpec) {
	for _, l := range listeners {
		there := m.listeners[l.Name]
		switch {
		case there == nil:
		case there.origin == FromOperator:
			put(&p.shadow.Listeners, there.spec)
			p.goListeners = append(p.goListeners, l.Name)
		case sameBinding(&there.spec, &l) && !slices.Contains(p.goServices, l.Service):
			if !reflect.DeepEqual(there.spec, l) {
				p.update = append(p.update, l)
			}
			continue
		default:
			p.goListeners = append(p.goListeners, l.Name)
		}
		p.addListeners = append(p.addListeners, l)
	}
	for name, there := range m.listeners {
		if there.origin == FromFile && !slices.ContainsFunc(listeners, func(l ListenerSpec) bool { return l.Name == name }) {
			p.goListeners = append(p.goListeners, name)
		}
	}
}

// shadow keeps additions, already removed, whose names the file has now. op
// is held.
func (m *Manager) shadow(s *Saved) error {
	if len(s.Services)+len(s.Listeners) == 0 {
		return nil
	}
	m.mu.Lock()
	for _, spec := range s.Services {
		put(&m.shadowed.Services, spec)
		m.warnShadowed("service", spec.Name)
	}
	for _, spec := range s.Listeners {
		put(&m.shadowed.Listeners, spec)
		m.warnShadowed("listener", spec.Name)
	}
	m.mu.Unlock()
	return m.save(func(*Saved) {})
}

// sameBinding says whether a listener can become another without being bound
// again.
func sameBinding(l, o *ListenerSpec) bool {
	return l.Provider == o.Provider && l.Address == o.Address && l.Service == o.Service && l.RPCBind == o.RPCBind
}

// removeListeners drains several at once.
func (m *Manager) removeListeners(names []string, drain time.Duration) []error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { _, errs[i] = m.RemoveListener(name, drain) })
	}
	wg.Wait()
	return errs
}

// addFileService binds, opens and serves a service of the file. op is held.
func (m *Manager) addFileService(ctx context.Context, spec *ServiceSpec) error {
	s, err := m.bindService(ctx, spec, FromFile)
	if err != nil {
		return err
	}
	if err := s.running.Open(false); err != nil {
		s.close(m)
		return &OpenError{Service: spec.Name, Err: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.services[spec.Name] = s
	if m.started {
		s.running.Start()
	}
	return nil
}

// updateFileListener puts the file's limits and access in force. op is held.
func (m *Manager) updateFileListener(spec *ListenerSpec) error {
	_, _, err := m.cfg.Dataplane.UpdateListener(spec.Name, dataplane.ListenerUpdate{
		Limits: &spec.Limits, Allow: &spec.Allow, Deny: &spec.Deny,
	})
	if err != nil {
		return invalid("listener "+spec.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.listeners[spec.Name]; l != nil {
		l.spec = *spec
	}
	return nil
}
