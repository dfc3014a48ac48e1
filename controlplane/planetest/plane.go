// Package planetest is a data plane without data, for tests of the control plane and of its
// clients. The test makes and ends connections. Settings and events behave like those of the
// real data plane. NewManager makes the real manager over it.
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
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Plane implements controlplane.Dataplane. The zero Plane is ready and
// empty.
type Plane struct {
	mu        sync.Mutex
	resolve   dataplane.Resolver
	conns     map[string]*conn
	endpoints map[string]*endpoint
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
	of    *endpoint // nil if the plane has no such listener
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
	c.of = p.endpoints[peer.Listener]
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
	p.downLocked(p.conns[id], reason)
}

func (p *Plane) downLocked(c *conn, reason string) {
	delete(p.conns, c.ID)
	if c.of != nil {
		c.of.gone.Add(&c.Stats)
	}
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
	for _, c := range p.Connectors() {
		sum.Add(&c.Totals)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
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
