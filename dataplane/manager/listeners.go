package manager

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// AddListener implements API.
func (m *Manager) AddListener(ctx context.Context, spec ListenerSpec) (ListenerInfo, error) {
	if err := m.checkListener(&spec); err != nil {
		return ListenerInfo{}, err
	}
	m.op.Lock()
	defer m.op.Unlock()
	l, err := m.bindListener(ctx, &spec, FromOperator)
	if err != nil {
		return ListenerInfo{}, err
	}
	l.pinPort()
	if err := m.save(func(all *Saved) { put(&all.Listeners, l.spec) }); err != nil {
		m.unbindListener(l)
		return ListenerInfo{}, err
	}
	m.log.Info("listener added", "listener", spec.Name, "provider", spec.Provider, "service", spec.Service, "address", l.bound.String())
	return m.listener(spec.Name), nil
}

// bindListener has the data plane listen and rpcbind told, or neither. op is
// held.
func (m *Manager) bindListener(ctx context.Context, spec *ListenerSpec, origin Origin) (*listener, error) {
	s, err := m.serviceFor(spec)
	if err != nil {
		return nil, err
	}
	p, err := m.cfg.Provider(spec.Provider)
	if err != nil {
		return nil, err
	}
	info, err := m.cfg.Dataplane.AddListener(ctx, dataplane.ListenerConfig{
		Name: spec.Name, Provider: p, Address: spec.Address, Service: spec.Service, Handler: s.running,
		Limits: spec.Limits, Access: spec.Access,
	})
	if err != nil {
		return nil, listenError(spec, err)
	}
	l := &listener{spec: *spec, origin: origin, state: StateUp, bound: info.Address}
	m.mu.Lock()
	m.listeners[spec.Name] = l
	m.mu.Unlock()
	if spec.RPCBind {
		if err := m.register(); err != nil {
			m.unbindListener(l)
			return nil, &InvalidError{Field: "rpcbind", Text: strings.TrimPrefix(err.Error(), "rpcbind: ")}
		}
	}
	return l, nil
}

// serviceFor finds the service of a listener to be added, whose name must be
// free.
func (m *Manager) serviceFor(spec *ListenerSpec) (*service, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, dataplane.ErrShutdown
	}
	if l := m.listeners[spec.Name]; l != nil && l.state != StateFailed {
		return nil, &ExistsError{What: "listener", Name: spec.Name, State: l.state}
	}
	s := m.services[spec.Service]
	if s == nil || s.state != StateUp {
		return nil, &NotFoundError{What: "service", Name: spec.Service, Known: m.upLocked()}
	}
	if spec.RPCBind && s.spec.Forward != nil {
		return nil, &InvalidError{Field: "rpcbind", Text: fmt.Sprintf("service %q forwards programs that rdmad does not know; leave it off", spec.Service)}
	}
	return s, nil
}

// upLocked are the services that listeners can be added for.
func (m *Manager) upLocked() []string {
	return slices.DeleteFunc(sortedKeys(m.services), func(name string) bool { return m.services[name].state != StateUp })
}

// unbindListener takes back what bindListener did. op is held.
func (m *Manager) unbindListener(l *listener) {
	m.mu.Lock()
	delete(m.listeners, l.spec.Name)
	m.mu.Unlock()
	m.unregister(l)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody was promised anything
	if _, err := m.cfg.Dataplane.RemoveListener(ctx, l.spec.Name); err != nil {
		m.log.Warn("listener not removed", "listener", l.spec.Name, "error", err)
	}
}

// unregister has rpcbind forget a listener that is not up any more. op is
// held.
func (m *Manager) unregister(l *listener) {
	if !l.spec.RPCBind {
		return
	}
	if err := m.register(); err != nil {
		m.log.Warn("registrations not changed", "listener", l.spec.Name, "error", err)
	}
}

// pinPort has a listener that let the system choose come back on the port that
// its clients know.
func (l *listener) pinPort() {
	if host, port, err := net.SplitHostPort(l.spec.Address); err == nil && port == "0" {
		l.spec.Address = net.JoinHostPort(host, strconv.Itoa(int(l.bound.Port())))
	}
}

// RemoveListener implements API.
func (m *Manager) RemoveListener(name string, drain time.Duration) (dataplane.Removed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	l, err := m.leaveListener(name)
	if err != nil {
		return dataplane.Removed{}, err
	}
	var removed dataplane.Removed
	if l.state != StateFailed {
		if removed, err = m.cfg.Dataplane.RemoveListener(ctx, name); err != nil {
			return removed, nil // another call was faster
		}
	}
	m.mu.Lock()
	if m.listeners[name] == l {
		delete(m.listeners, name)
	}
	m.mu.Unlock()
	m.log.Info("listener removed", "listener", name, "drained", removed.Drained, "cut", removed.Cut)
	return removed, nil
}

// leaveListener marks a listener as going, and writes that down, unless that
// was done already.
func (m *Manager) leaveListener(name string) (*listener, error) {
	m.op.Lock()
	defer m.op.Unlock()
	m.mu.Lock()
	l, known, closed := m.listeners[name], sortedKeys(m.listeners), m.closed
	m.mu.Unlock()
	if closed {
		return nil, dataplane.ErrShutdown
	}
	if l == nil {
		return nil, &NotFoundError{What: "listener", Name: name, Known: known}
	}
	if l.state == StateDraining {
		return l, nil
	}
	if err := m.save(func(all *Saved) { drop(&all.Listeners, name) }); err != nil {
		return nil, err
	}
	if l.state == StateFailed {
		return l, nil
	}
	m.mu.Lock()
	l.state = StateDraining
	m.mu.Unlock()
	m.unregister(l)
	return l, nil
}
