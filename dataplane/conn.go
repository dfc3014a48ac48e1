package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// States of a connection.
const (
	StateUp       = "up"
	StateDraining = "draining"
	StateDegraded = "degraded" // a listener that can't be reached for now
)

// conn is a connection in the registry.
type conn struct {
	moved fair.Mark // set when part changes; calls read it, so the fields beside it do not change
	e     *endpoint
	l     *Listener // nil for connections of connectors
	key   ConnKey
	peer  netip.AddrPort
	rc    *rpcrdma.Conn // nil for connections of connectors
	link  Link
	part  part

	receiver receiver // of our Sends; unused for connections of connectors

	client netip.AddrPort             // of a connector; invalid for others
	memory func() rpcrdma.MemoryStats // of a connector's client; nil for others

	trace    *trace.Conn
	handler  handler
	session  perconn.Handler // nil when the service keeps nothing for it
	sharing  sharing
	why      atomic.Pointer[string] // why rdmad ended it; nil if it has not
	place    *connlimit.Place
	counted  *clients.Conn     // among the clients, from register to leave
	evicting []<-chan struct{} // one for each connection that it evicts, closed at the end of that one
	lost     string            // why it lost its place when it was not up, or ""; under Dataplane.mu
	// connecting ends when the connection loses its place before it is up, by giveUp.
	// settled is closed when the handshake is over. Connections of connectors have neither.
	connecting context.Context
	giveUp     context.CancelFunc
	settled    chan struct{}
	draining   atomic.Bool
	cut        atomic.Bool   // the drain took too long
	gone       chan struct{} // closed when it is out of the registry
	// setting is held while settings are resolved and given to rc, so that the answer of
	// the newest resolver stays in force.
	setting   sync.Mutex
	settings  atomic.Pointer[rpcrdma.Settings]
	atConnect *rpcrdma.Settings // as announced to the peer
	revision  uint64            // of the resolver that gave settings
}

// register makes c visible. It also applies settings that changed since admit.
func (d *Dataplane) register(c *conn) {
	c.counted = d.clients.Join(time.Now(), c.clientAddress(), nil)
	d.counting.Lock()
	now := c.current()
	d.mu.Lock()
	c.count(&now)
	d.conns.add(c)
	c.e.up++
	access := c.e.access.Load() // changed under the same lock
	if c.l != nil && !access.Permits(c.key.Peer) {
		c.lost = reasonDenied
	}
	resolve, revision := d.resolve, d.revision
	d.mu.Unlock()
	d.counting.Unlock()
	c.e.accepted.Add(1)
	c.update(resolve, revision)
	info := c.info()
	d.log.Info("connection up", "conn", c.key.ID, "listener", c.key.Listener, "peer", c.peer.String(),
		"inline_send", info.InlineSend, "inline_receive", info.InlineReceive,
		"remote_invalidation", info.RemoteInvalidation)
	d.subs.Publish(Event{Type: ConnUp, Time: time.Now(), Conn: info})
}

// update gives the effective settings to the connection, unless it already has the settings
// of this resolver or of a later one. It returns the settings before and now.
func (c *conn) update(resolve Resolver, revision uint64) (before, now *rpcrdma.Settings) {
	c.setting.Lock()
	defer c.setting.Unlock()
	before = c.settings.Load()
	if c.revision >= revision {
		return before, before
	}
	c.revision = revision
	if now = resolve(c.key); now == before {
		return before, before
	}
	c.settings.Store(now)
	if *now != *before {
		c.link.SetSettings(now)
	}
	return before, now
}

// leave removes a connection that has ended from the registry.
func (c *conn) leave() {
	c.closeSession()
	c.trace.Close()
	if c.l != nil {
		c.l.receivers.leave(c.receiver, time.Now())
	}
	d := c.e.d
	d.counting.Lock()
	stats := c.link.Stats()
	d.mu.Lock()
	c.count(&part{stats: stats})
	d.conns.remove(c)
	c.e.up--
	d.mu.Unlock()
	d.counting.Unlock()
	c.counted.Leave()
	c.place.Leave()
	if c.why.Load() == nil && c.handler.lost.Load() > 0 {
		c.l.disconnects.Add(1)
	}
	info, level, reason := c.info(), slog.LevelInfo, c.reason()
	if err := c.link.Err(); (err != nil && !rpctcp.IsReset(err)) || c.cut.Load() {
		level = slog.LevelWarn
	}
	d.log.Log(context.Background(), level, "connection down", "conn", c.key.ID, "listener", c.key.Listener, "peer", c.peer.String(),
		"reason", reason, "calls", stats.Calls, "replies", stats.Replies, "errors", stats.Errors,
		"rdma_reads", stats.RDMAReads, "rdma_writes", stats.RDMAWrites,
		"bytes_received", stats.BytesReceived, "bytes_sent", stats.BytesSent,
		"up_for", time.Since(info.Since).Round(time.Millisecond))
	d.subs.Publish(Event{Type: ConnDown, Time: time.Now(), Conn: info, Reason: reason})
	close(c.gone)
}

// clientAddress returns the address of the client that uses the connection.
func (c *conn) clientAddress() netip.Addr {
	if c.client.IsValid() {
		return c.client.Addr()
	}
	return c.key.Peer
}

// counters returns what the connection with these counters did, as its client sees it. A
// connector's connection sends to the target what it received from the client.
func (c *conn) counters(s *rpcrdma.Stats) clients.Counters {
	n := clients.Counters{Calls: s.Calls, Errors: s.Errors, BytesReceived: s.BytesReceived, BytesSent: s.BytesSent, Time: time.Duration(c.handler.spent.Load())}
	if c.client.IsValid() {
		n.BytesReceived, n.BytesSent = n.BytesSent, n.BytesReceived
	}
	return n
}

// downReason returns the reason without the addresses, because the log line has them.
func downReason(err error) string {
	if e, ok := errors.AsType[*rpcrdma.Error](err); ok && e.Reason != nil {
		err = e.Reason
	}
	return err.Error()
}

// info describes the connection for operators.
func (c *conn) info() ConnInfo {
	state := StateUp
	if c.draining.Load() {
		state = StateDraining
	}
	return ConnInfo{
		ConnKey:  c.key,
		PeerPort: c.peer,
		Client:   c.client,
		Provider: c.e.provider.Name(),
		Service:  c.e.service,
		State:    state,
		InFlight: int(c.handler.inFlight.Load()),
		Info:     c.link.Info(),
		Stats:    c.link.Stats(),
		Sizes:    c.link.Sizes(),
		Settings: c.settings.Load(),
	}
}

// find returns the connection with an id.
func (d *Dataplane) find(id string) (*conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.conns.byID[id]
	if c == nil {
		return nil, fmt.Errorf("connection %s: %w", id, ErrNotFound)
	}
	return c, nil
}

// Connections describes all connections, in the order in which they came up.
func (d *Dataplane) Connections() []ConnInfo {
	all := d.snapshot()
	out := make([]ConnInfo, 0, len(all))
	fair.Walk(all, walkStretch, func(c *conn) { out = append(out, c.info()) })
	return out
}

// snapshot returns the connections in the registry, by id.
func (d *Dataplane) snapshot() []*conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.conns.all)
}

// Connection describes one connection. It returns ErrNotFound when the connection is gone.
func (d *Dataplane) Connection(id string) (ConnInfo, error) {
	c, err := d.find(id)
	if err != nil {
		return ConnInfo{}, err
	}
	info := c.info()
	info.SendHeld = c.heldAs(&info.Info)
	return info, nil
}
