package manager

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// listeners implements kind for listeners.
type listeners struct{ *Manager }

func (m listeners) check(l, _ *spec.Listener) error { return m.checkProvider(l.Provider) }

func (m *Manager) checkProvider(name string) error {
	if !slices.Contains(m.cfg.Providers, name) {
		return &UnknownError{What: "provider", Name: name, Known: m.cfg.Providers}
	}
	return nil
}

func (m listeners) make(ctx context.Context, l *spec.Listener, c *Change) (running[spec.Listener], error) {
	if t := m.connectors.get(l.Name); t != nil && !slices.Contains(c.connectors.gone, t) {
		return nil, &ExistsError{What: "connector", Name: l.Name, State: t.state}
	}
	s, err := m.serviceFor(l, c)
	if s == nil {
		return nil, err
	}
	p, err := m.cfg.Provider(l.Provider)
	if err != nil {
		return nil, err
	}
	want := dataplane.ListenerConfig{
		Name: l.Name, Provider: p, Address: l.Address, Service: l.Service, Handler: s.Service, Descriptors: s.descriptors,
		Limits: l.Limits, Access: l.Access,
	}
	if from := c.heldAt(l); from != nil {
		want.From, _ = from.Listener.(*dataplane.Listener)
	}
	bound, err := m.cfg.Dataplane.PrepareListener(ctx, want)
	if err != nil {
		return nil, bindError("listener", l.Name, l.Address, err)
	}
	return &listening{bound, s, bound.Info().Address}, nil
}

// serviceFor returns the service of a new listener. It returns nil without an error if the
// change can't prepare the service.
func (m listeners) serviceFor(l *spec.Listener, c *Change) (*serving, error) {
	s, broken := c.service(l.Service)
	switch {
	case broken:
		return nil, nil
	case s == nil:
		m.mu.Lock()
		defer m.mu.Unlock()
		up := slices.DeleteFunc(sortedKeys(m.services.things), func(name string) bool { return m.services.things[name].state != StateUp })
		return nil, &NotFoundError{What: "service", Name: l.Service, Known: up}
	case l.RPCBind && s.spec.Forward != nil:
		return nil, &InvalidError{Field: "rpcbind", Text: fmt.Sprintf("service %q forwards programs that rdmad does not know; leave it off", l.Service)}
	}
	return s.running.(*serving), nil
}

// retryListeners makes the listeners of the file that failed for lack of a service which operators
// added. The caller holds op.
func (m *Manager) retryListeners(ctx context.Context) {
	for _, name := range sortedKeys(m.listeners.things) {
		t := m.listeners.get(name)
		s := m.services.get(t.spec.Service)
		if !t.failedOfFile() || s == nil || s.origin != FromOperator || s.state != StateUp {
			continue
		}
		c := m.newChange()
		c.listeners.add(t.spec, FromFile, t)
		if err := c.make(ctx, nil); err != nil {
			m.listeners.fail(t.spec, FromFile, err)
		}
	}
}

// register registers the listeners that request it with rpcbind. The caller holds op.
func (m *Manager) register() {
	m.mu.Lock()
	list := m.registrationsLocked()
	m.mu.Unlock()
	if err := m.cfg.Registrar.Set(list); err != nil { // Check allows it
		m.log.Error("registrations not changed", "error", err)
	}
}

func (m *Manager) registrationsLocked() (list []rpcbind.Registration) {
	for _, name := range sortedKeys(m.listeners.things) {
		l := m.listeners.things[name]
		if l.spec.RPCBind && l.state == StateUp {
			r := l.running.(*listening)
			list = append(list, r.service.Registrations(r.bound)...)
		}
	}
	return list
}

// sameBinding compares the fields that can't change while a listener is up.
func (listeners) sameBinding(a, b *spec.Listener) bool {
	return a.Provider == b.Provider && a.Address == b.Address && a.Service == b.Service && a.RPCBind == b.RPCBind
}

func (listeners) mayAmend(l *spec.Listener) error {
	return invalid("listener "+l.Name, dataplane.CheckAccess(&l.Access))
}

func (m listeners) mayGo(name string, c *Change) error { return c.mayForget(name) }

func (listeners) unused(running[spec.Listener]) {}

func (m listeners) look() func(*ListenerInfo, running[spec.Listener]) {
	up := make(map[string]dataplane.ListenerInfo)
	for _, l := range m.cfg.Dataplane.Listeners() {
		up[l.Name] = l
	}
	return func(i *ListenerInfo, _ running[spec.Listener]) {
		if l, ok := up[i.Spec.Name]; ok { // not failed, and not being added or removed now
			i.Live = l
			if i.State == StateUp {
				i.State, i.Failure = l.State, l.Trouble
			}
		}
	}
}

// listening is a running listener.
type listening struct {
	Listener
	service *serving
	bound   netip.AddrPort
}

func (*listening) Open(context.Context) error { return nil }

func (*listening) Start() {} // the data plane starts listeners

func (r *listening) update(l *spec.Listener) error { return r.Update(l.Limits, l.Access) }

func (r *listening) drain(ctx context.Context) (dataplane.Removed, error) { return r.Remove(ctx), nil }

func (r *listening) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _ = r.drain(ctx)
}

func (r *listening) pin(l *spec.Listener) { pinPort(&l.Address, r.bound) }

// pinPort replaces port 0 by the port that the system chose, so that clients find the same
// port after a restart.
func pinPort(address *string, bound netip.AddrPort) {
	if host, port, err := net.SplitHostPort(*address); err == nil && port == "0" {
		*address = net.JoinHostPort(host, strconv.Itoa(int(bound.Port())))
	}
}
