package manager

import (
	"context"
	"reflect"
	"slices"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connector"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// connectors implements kind for connectors.
type connectors struct{ *Manager }

func (m connectors) check(c, _ *spec.Connector) error { return m.checkProvider(c.Provider) }

func (m connectors) make(ctx context.Context, s *spec.Connector, c *Change) (running[spec.Connector], error) {
	if t := m.listeners.get(s.Name); t != nil && !slices.Contains(c.listeners.gone, t) {
		return nil, &ExistsError{What: "listener", Name: s.Name, State: t.state}
	}
	p, err := m.cfg.Provider(s.Provider)
	if err != nil {
		return nil, err
	}
	made, err := m.cfg.Dataplane.PrepareConnector(ctx, connector.Config{Connector: *s, Provider: p, Bindings: m.cfg.Bindings, Logger: m.log})
	if err != nil {
		return nil, bindError("connector", s.Name, s.Listen, err)
	}
	return &connecting{made}, nil
}

// sameBinding compares the fields that can't change while a connector has clients.
func (connectors) sameBinding(a, b *spec.Connector) bool {
	c := *a
	c.Limits, c.Access = b.Limits, b.Access
	return reflect.DeepEqual(&c, b)
}

func (connectors) mayAmend(c *spec.Connector) error {
	return invalid("connector "+c.Name, dataplane.CheckAccess(&c.Access))
}

func (m connectors) mayGo(name string, c *Change) error { return c.mayForget(name) }

func (connectors) unused(running[spec.Connector]) {}

func (m connectors) look() func(*ConnectorInfo, running[spec.Connector]) {
	up := make(map[string]dataplane.ConnectorInfo)
	for _, c := range m.cfg.Dataplane.Connectors() {
		up[c.Name] = c
	}
	return func(i *ConnectorInfo, _ running[spec.Connector]) {
		if c, ok := up[i.Spec.Name]; ok {
			i.Live = c
			if i.State == StateUp {
				i.State = c.State
			}
		}
	}
}

// connecting is a running connector.
type connecting struct{ Connector }

func (connecting) Open(context.Context) error { return nil }

func (r connecting) update(c *spec.Connector) error {
	r.SetMemory(int64(spec.Filled(*c).Limits.Memory))
	return r.Update(c.Limits.Limits, c.Access)
}

func (connecting) EndDenied() int { return 0 }

func (r connecting) drain(ctx context.Context) (dataplane.Removed, error) {
	return r.Shutdown(ctx), nil
}

func (r connecting) close() { r.Close() }

func (r connecting) pin(c *spec.Connector) { pinPort(&c.Listen, r.Addr()) }

// Connecting returns the connectors that are up, by name. Counted may call it.
func (m *Manager) Connecting() map[string]Connector {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]Connector)
	for name, t := range m.connectors.things {
		if c, ok := t.running.(*connecting); ok && t.state == StateUp {
			out[name] = c.Connector
		}
	}
	return out
}
