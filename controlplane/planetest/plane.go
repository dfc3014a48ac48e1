// Package planetest is a data plane without data, for tests of the control
// plane and of what talks to it. Connections come and go as the test says;
// settings and events behave as the real data plane's do.
package planetest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Plane implements controlplane.Dataplane. The zero Plane is ready and
// empty.
type Plane struct {
	mu        sync.Mutex
	resolve   dataplane.Resolver
	conns     map[string]*conn
	listeners []dataplane.ListenerInfo
	subs      []*subscription
	over      bool
	applied   int
}

// Born is when everything came up.
var Born = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// Listen adds a listener of the nfs service.
func (p *Plane) Listen(name, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = append(p.listeners, dataplane.ListenerInfo{
		Name: name, Provider: "softiwarp", Service: "export", Address: netip.MustParseAddrPort(address), Since: Born,
	})
}

// Use makes resolve the source of settings without telling connections.
func (p *Plane) Use(resolve dataplane.Resolver) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resolve = resolve
}

// Peer is a connection to come, of version 1.
type Peer struct {
	ID, Listener string
	Address      string // and port
	// Receive is what the peer receives inline, 4096 bytes when 0.
	Receive uint32
	// NoInvalidation: the peer doesn't take Send With Invalidate.
	NoInvalidation bool
	Stats          rpcrdma.Stats
	Sizes          rpcrdma.Sizes
	State          string // up when ""
}

// conn is a connection that is up.
type conn struct {
	dataplane.ConnInfo
	peer Peer
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
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Settings = p.settings(c.ConnKey)
	c.InlineReceive = c.Settings.InlineReceiveSize
	c.enforce()
	if p.conns == nil {
		p.conns = make(map[string]*conn)
	}
	p.conns[c.ID] = c
	p.publish(dataplane.Event{Type: dataplane.ConnUp, Time: Born, Conn: c.ConnInfo})
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
	p.publish(dataplane.Event{Type: dataplane.ConnDown, Time: Born, Conn: c.ConnInfo, Reason: reason})
}

// Applied counts calls of ApplySettings.
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

// Connection implements grpcapi.Plane.
func (p *Plane) Connection(id string) (dataplane.ConnInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.conns[id]; c != nil {
		return c.ConnInfo, nil
	}
	return dataplane.ConnInfo{}, fmt.Errorf("connection %s: %w", id, dataplane.ErrNotFound)
}

// Listeners implements grpcapi.Plane.
func (p *Plane) Listeners() []dataplane.ListenerInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.listeners)
}
