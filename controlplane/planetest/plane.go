// Package planetest is a data plane without data, for tests of the control plane and of its
// clients. The test makes and ends connections. Settings and events behave like those of the
// real data plane.
package planetest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Plane implements controlplane.Dataplane. The zero Plane is ready and
// empty.
type Plane struct {
	mu        sync.Mutex
	resolve   dataplane.Resolver
	conns     map[string]*conn
	gone      []dataplane.ConnInfo // disconnected
	listeners []dataplane.ListenerInfo
	connects  []dataplane.ConnectorInfo
	limits    dataplane.Limits
	subs      dataplane.Subscriptions
	memory    int64
	tcp       dataplane.TCPLimits
	applied   int
	tracing   trace.Hub
	slow      dataplane.SlowCalls
}

// Born is the time at which everything came up.
var Born = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// Listen adds a listener of the nfs service.
func (p *Plane) Listen(name, address string) {
	p.listen(name, address, "export", dataplane.Limits{}, dataplane.Access{})
}

func (p *Plane) listen(name, address, service string, limits dataplane.Limits, access dataplane.Access) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = append(p.listeners, dataplane.ListenerInfo{
		EndpointInfo: dataplane.EndpointInfo{
			Name: name, Provider: "softiwarp", Address: netip.MustParseAddrPort(address), Since: Born,
			State: dataplane.StateUp, Limits: limits, Access: access,
		},
		Service: service,
	})
	slices.SortFunc(p.listeners, func(a, b dataplane.ListenerInfo) int { return cmp.Compare(a.Name, b.Name) })
}

// Degrade makes a listener unreachable.
func (p *Plane) Degrade(name, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.listeners {
		if l := &p.listeners[i]; l.Name == name {
			l.State, l.Trouble = dataplane.StateDegraded, why
		}
	}
}

// Unlisten removes a listener and returns the number of its connections.
func (p *Plane) Unlisten(name string) (drained int) {
	for _, c := range p.Connections() {
		if c.Listener == name {
			p.Disconnect(c.ID, "the listener was removed")
			drained++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = slices.DeleteFunc(p.listeners, func(l dataplane.ListenerInfo) bool { return l.Name == name })
	return drained
}

// users are the listeners of a service.
func (p *Plane) users(service string) (names []string) {
	for _, l := range p.Listeners() {
		if l.Service == service {
			names = append(names, l.Name)
		}
	}
	return names
}

// listenerInfos are the listeners as if the configuration file named them.
func (p *Plane) listenerInfos() (out []manager.ListenerInfo) {
	for _, l := range p.Listeners() {
		out = append(out, manager.ListenerInfo{
			Spec: spec.Listener{
				Name: l.Name, Provider: l.Provider, Address: l.Address.String(), Service: l.Service, Limits: l.Limits, Access: l.Access,
			},
			State: l.State, Failure: l.Trouble, Live: l,
		})
	}
	return out
}

// connectorInfos are the connectors as if the configuration file named them.
func (p *Plane) connectorInfos() (out []manager.ConnectorInfo) {
	for _, c := range p.Connectors() {
		out = append(out, manager.ConnectorInfo{
			Spec: spec.Connector{
				Name: c.Name, Listen: c.Address.String(), Provider: c.Provider, Target: c.Target, Limits: spec.ConnectorLimits{Limits: c.Limits}, Access: c.Access,
			},
			State: c.State, Live: c,
		})
	}
	return out
}

// update changes a listener that exists and says how many connections that
// ended.
func (p *Plane) update(to spec.Listener, endDenied bool) (ended int) {
	p.mu.Lock()
	i := slices.IndexFunc(p.listeners, func(l dataplane.ListenerInfo) bool { return l.Name == to.Name })
	p.listeners[i].Limits, p.listeners[i].Access = to.Limits, to.Access
	p.listeners[i].Address, p.listeners[i].Service = netip.MustParseAddrPort(withPort(to.Address)), to.Service
	p.mu.Unlock()
	for _, c := range p.Connections() {
		if endDenied && c.Listener == to.Name && !to.Permits(c.ConnKey.Peer) {
			p.Disconnect(c.ID, "the listener's allow and deny keep this address out now")
			ended++
		}
	}
	return ended
}

// updateConnector changes a connector that exists.
func (p *Plane) updateConnector(to *spec.Connector) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.connects {
		if c := &p.connects[i]; c.Name == to.Name {
			c.Limits, c.Access, c.Target = to.Limits.Limits, to.Access, to.Target
			c.Address = netip.MustParseAddrPort(withPort(to.Listen))
		}
	}
}

// Use makes resolve the source of settings without an event for connections.
func (p *Plane) Use(resolve dataplane.Resolver) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resolve = resolve
}

// Peer describes a connection of version 1 to be made.
type Peer struct {
	ID, Listener string
	Address      string // and port
	// Receive is the peer's receive size; 0 means 4096 bytes.
	Receive uint32
	// NoInvalidation means that the peer does not accept Send With Invalidate.
	NoInvalidation bool
	Stats          rpcrdma.Stats
	Sizes          rpcrdma.Sizes
	State          string // up when ""
}

// conn is a connection that is up.
type conn struct {
	dataplane.ConnInfo
	peer  Peer
	trace *trace.Conn
}

// Connect brings a connection up.
func (p *Plane) Connect(peer Peer) {
	addr := netip.MustParseAddrPort(peer.Address)
	c := &conn{peer: peer, ConnInfo: dataplane.ConnInfo{
		ConnKey:  dataplane.ConnKey{Listener: peer.Listener, Peer: addr.Addr().Unmap(), ID: peer.ID},
		PeerPort: addr,
		Provider: "softiwarp",
		Service:  "export",
		State:    cmp.Or(peer.State, dataplane.StateUp),
		Stats:    peer.Stats,
		Sizes:    peer.Sizes,
	}}
	c.Local, c.RPCVersion, c.Since = netip.MustParseAddrPort("127.0.0.1:20049"), 1, Born
	c.trace = p.tracing.Add(trace.Info{ID: c.ID, Listener: c.Listener, Local: c.Local, Peer: addr})
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Settings = p.settings(c.ConnKey)
	c.InlineReceive = c.Settings.InlineReceiveSize
	c.enforce()
	if p.conns == nil {
		p.conns = make(map[string]*conn)
	}
	p.conns[c.ID] = c
	p.subs.Publish(dataplane.Event{Type: dataplane.ConnUp, Time: Born, Conn: c.ConnInfo})
}

// Clients counts the connections that are up, by client.
func (p *Plane) Clients() *clients.Table {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := clients.New(clients.Room)
	for _, c := range p.conns {
		s := c.Stats
		t.Join(Born, c.ConnKey.Peer, func() clients.Counters {
			return clients.Counters{Calls: s.Calls, Errors: s.Errors, BytesReceived: s.BytesReceived, BytesSent: s.BytesSent, Time: time.Duration(s.Calls) * 250 * time.Microsecond}
		})
	}
	return t
}

// settings of a connection; p.mu is held.
func (p *Plane) settings(key dataplane.ConnKey) *rpcrdma.Settings {
	if p.resolve == nil {
		s := rpcrdma.DefaultSettings()
		return &s
	}
	return p.resolve(key)
}

// enforce makes what is in force follow c's settings.
func (c *conn) enforce() {
	c.InlineSend = min(c.Settings.InlineSendMax, cmp.Or(c.peer.Receive, 4096))
	c.CreditsGranted = c.Settings.CreditsMax
	c.RemoteInvalidation = c.Settings.RemoteInvalidationUse && !c.peer.NoInvalidation
}

// Disconnect ends a connection.
func (p *Plane) Disconnect(id, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conns[id]
	delete(p.conns, id)
	p.gone = append(p.gone, c.ConnInfo)
	c.trace.Close()
	p.subs.Publish(dataplane.Event{Type: dataplane.ConnDown, Time: Born, Conn: c.ConnInfo, Reason: reason})
}

// Applied returns the number of calls of ApplySettings.
func (p *Plane) Applied() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applied
}

// Connections implements grpcapi.Plane.
func (p *Plane) Connections() []dataplane.ConnInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]dataplane.ConnInfo, 0, len(p.conns))
	for _, c := range p.conns {
		out = append(out, c.ConnInfo)
	}
	slices.SortFunc(out, func(a, b dataplane.ConnInfo) int {
		return dataplane.CompareID(a.ID, b.ID)
	})
	return out
}

// Totals implements grpcapi.Plane.
func (p *Plane) Totals() (connections int, sum rpcrdma.Stats) {
	for _, l := range p.Stats() {
		sum.Add(&l.Totals)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.connects {
		sum.Add(&p.connects[i].Totals)
	}
	return len(p.conns), sum
}

// Connection implements grpcapi.Plane.
func (p *Plane) Connection(id string) (dataplane.ConnInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.conns[id]; c != nil {
		return c.ConnInfo, nil
	}
	return dataplane.ConnInfo{}, fmt.Errorf("connection %s: %w", id, dataplane.ErrNotFound)
}

// Connector adds a connector.
func (p *Plane) Connector(info dataplane.ConnectorInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connects = append(p.connects, info)
}

// removeConnector removes a connector and says how many connections it had.
func (p *Plane) removeConnector(name string) (drained int, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connects = slices.DeleteFunc(p.connects, func(c dataplane.ConnectorInfo) bool {
		if c.Name == name {
			drained = c.Connections
		}
		return c.Name == name
	})
	return drained, nil
}

// Connectors implements grpcapi.Plane.
func (p *Plane) Connectors() []dataplane.ConnectorInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.connects)
}

// Listeners implements grpcapi.Plane.
func (p *Plane) Listeners() []dataplane.ListenerInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.listeners)
}
