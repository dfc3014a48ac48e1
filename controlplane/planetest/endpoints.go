package planetest

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connector"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/rpcrdma"
)

// endpoint implements manager.Listener and manager.Connector, without what a manager that is
// not started does not call.
type endpoint struct {
	manager.Connector
	p *Plane

	// Under Plane.mu:
	*dataplane.EndpointInfo                          // of listener or connector
	listener                *dataplane.ListenerInfo  // nil for a connector
	connector               *dataplane.ConnectorInfo // nil for a listener
	managed                 bool                     // a manager has it
	gone                    rpcrdma.Stats            // of the connections that have ended
}

// Listen adds a listener of the service export.
func (p *Plane) Listen(name, address string) {
	p.listener(&dataplane.ListenerConfig{Name: name, Address: address, Service: "export"}).Enter()
}

func (p *Plane) listener(cfg *dataplane.ListenerConfig) *endpoint {
	i := &dataplane.ListenerInfo{EndpointInfo: up(cfg.Name, cfg.Address, cfg.Limits, cfg.Access), Service: cfg.Service}
	return &endpoint{p: p, EndpointInfo: &i.EndpointInfo, listener: i}
}

// Connector adds a connector.
func (p *Plane) Connector(info dataplane.ConnectorInfo) { p.connector(info).Enter() }

func (p *Plane) connector(i dataplane.ConnectorInfo) *endpoint {
	return &endpoint{p: p, EndpointInfo: &i.EndpointInfo, connector: &i}
}

// up describes a new listener or connector. Port 0 becomes 40000.
func up(name, address string, l dataplane.Limits, a dataplane.Access) dataplane.EndpointInfo {
	if host, ok := strings.CutSuffix(address, ":0"); ok {
		address = host + ":40000"
	}
	return dataplane.EndpointInfo{
		Name: name, Provider: "softiwarp", Address: netip.MustParseAddrPort(address), State: dataplane.StateUp, Since: Born, Limits: l, Access: a,
	}
}

// PrepareListener implements manager.Dataplane.
func (p *Plane) PrepareListener(_ context.Context, cfg dataplane.ListenerConfig) (manager.Listener, error) {
	return p.prepare(cfg.Name, func() *endpoint { return p.listener(&cfg) }), nil
}

// PrepareConnector implements manager.Dataplane.
func (p *Plane) PrepareConnector(_ context.Context, cfg connector.Config) (manager.Connector, error) {
	return p.prepare(cfg.Name, func() *endpoint {
		return p.connector(dataplane.ConnectorInfo{EndpointInfo: up(cfg.Name, cfg.Listen, cfg.Limits.Limits, cfg.Access), Target: cfg.Target})
	}), nil
}

// prepare returns a new endpoint, or the one of its name that the test made before the manager.
func (p *Plane) prepare(name string, fresh func() *endpoint) *endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.endpoints[name]
	if e == nil || e.managed {
		e = fresh()
	}
	e.managed = true
	return e
}

// Degrade makes a listener unreachable.
func (p *Plane) Degrade(name, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.endpoints[name].listener
	l.State, l.Trouble = dataplane.StateDegraded, why
}

// Listeners implements grpcapi.Plane.
func (p *Plane) Listeners() []dataplane.ListenerInfo {
	return infos(p, func(e *endpoint) *dataplane.ListenerInfo { return e.listener })
}

// Connectors implements grpcapi.Plane.
func (p *Plane) Connectors() []dataplane.ConnectorInfo {
	return infos(p, func(e *endpoint) *dataplane.ConnectorInfo { return e.connector })
}

// infos returns the infos of one kind, by name.
func infos[I any](p *Plane, of func(*endpoint) *I) (out []I) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.endpoints)) {
		if i := of(p.endpoints[name]); i != nil {
			out = append(out, *i)
		}
	}
	return out
}

func (e *endpoint) Enter() {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	if e.p.endpoints == nil {
		e.p.endpoints = make(map[string]*endpoint)
	}
	e.p.endpoints[e.Name] = e
}

func (e *endpoint) Info() dataplane.ListenerInfo {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	return *e.listener
}

func (e *endpoint) Addr() netip.AddrPort { return e.Address }

func (*endpoint) Sockets() []net.Listener { return nil }

func (e *endpoint) Update(l dataplane.Limits, a dataplane.Access) error {
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	e.Limits, e.Access = l, a
	return nil
}

func (*endpoint) SetMemory(int64) {}

// EndDenied ends the connections that may no longer connect.
func (e *endpoint) EndDenied() int {
	return e.end("the listener's allow and deny keep this address out now", func(c *conn) bool { return !e.Access.Permits(c.ConnKey.Peer) })
}

// Remove ends all connections.
func (e *endpoint) Remove(context.Context) dataplane.Removed {
	n := e.Connections + e.end("the listener was removed", func(*conn) bool { return true })
	e.p.mu.Lock()
	defer e.p.mu.Unlock()
	if e.p.endpoints[e.Name] == e {
		delete(e.p.endpoints, e.Name)
	}
	return dataplane.Removed{Drained: n}
}

// Shutdown is a connector's Remove.
func (e *endpoint) Shutdown(ctx context.Context) dataplane.Removed { return e.Remove(ctx) }

func (*endpoint) Close() {}

// end ends some of the connections, and returns their number.
func (e *endpoint) end(reason string, some func(*conn) bool) (n int) {
	for _, info := range e.p.Connections() {
		e.p.mu.Lock()
		if c := e.p.conns[info.ID]; c != nil && c.of == e && some(c) {
			e.p.downLocked(c, reason)
			n++
		}
		e.p.mu.Unlock()
	}
	return n
}
