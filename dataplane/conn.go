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

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
)

// States of a connection.
const (
	StateUp       = "up"
	StateDraining = "draining"
	StateDegraded = "degraded" // a listener that nobody can reach for the time being
)

// conn is a connection in the registry.
type conn struct {
	l    *listener
	key  ConnKey
	peer netip.AddrPort
	rc   *rpcrdma.Conn // nil for those of connectors
	link Link

	receiver receiver // of our Sends; none for those of connectors

	client netip.AddrPort             // of a connector; invalid for others
	memory func() rpcrdma.MemoryStats // of a connector's client; nil for others

	trace    *trace.Conn
	handler  handler
	session  perconn.Handler // nil when the service keeps nothing for it
	sharing  sharing
	why      atomic.Pointer[string] // we ended it; nil while we have not
	place    *connlimit.Place
	evicting sync.WaitGroup // connections whose places it takes
	lost     string         // why it lost its place before it came up; "" if it did not
	draining atomic.Bool
	cut      atomic.Bool   // the drain took too long
	gone     chan struct{} // closed when it is out of the registry
	// setting is held while settings are resolved and handed to rc, so that
	// the resolver asked last is also the one whose answer stays.
	setting   sync.Mutex
	settings  atomic.Pointer[rpcrdma.Settings]
	atConnect *rpcrdma.Settings // as announced to the peer
	revision  uint64            // of the resolver that gave settings
}

// register makes c visible. Settings changed since admit are made good.
func (d *Dataplane) register(c *conn) {
	d.mu.Lock()
	d.conns.add(c)
	c.l.up++
	access := c.l.access.Load() // changed under the same lock
	if c.client == (netip.AddrPort{}) && !access.Permits(c.key.Peer) {
		c.lost = reasonDenied
	}
	resolve, revision := d.resolve, d.revision
	d.mu.Unlock()
	c.l.accepted.Add(1)
	c.update(resolve, revision)
	info := c.info()
	d.log.Info("connection up", "conn", c.key.ID, "listener", c.key.Listener, "peer", c.peer.String(),
		"inline_send", info.InlineSend, "inline_receive", info.InlineReceive,
		"remote_invalidation", info.RemoteInvalidation)
	d.publish(Event{Type: ConnUp, Time: time.Now(), Conn: info})
}

// update hands the effective settings to the connection, unless it has those
// of this resolver, or of a later one, already. It returns them, and those
// before.
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
	c.l.receivers.leave(c.receiver, time.Now())
	d := c.l.d
	stats := c.link.Stats()
	d.mu.Lock()
	d.conns.remove(c)
	c.l.up--
	addStats(&c.l.gone, &stats)
	d.mu.Unlock()
	c.place.Leave()
	if c.why.Load() == nil && c.handler.lost.Load() > 0 {
		c.l.disconnects.Add(1)
	}
	info, level, reason := c.info(), slog.LevelInfo, c.reason()
	if err := c.link.Err(); (err != nil && !rpctcp.IsReset(err)) || c.cut.Load() {
		level = slog.LevelWarn
	}
	d.log.Log(context.Background(), level, "connection down", "conn", c.key.ID, "listener", c.key.Listener, "peer", c.peer.String(),
		"reason", reason, "calls", stats.Calls, "errors", stats.Errors,
		"up_for", time.Since(info.Since).Round(time.Millisecond))
	d.publish(Event{Type: ConnDown, Time: time.Now(), Conn: info, Reason: reason})
	close(c.gone)
}

// downReason leaves out the addresses, which the log line has.
func downReason(err error) string {
	var e *rpcrdma.Error
	if errors.As(err, &e) && e.Reason != nil {
		err = e.Reason
	}
	return err.Error()
}

// info is what operators see.
func (c *conn) info() ConnInfo {
	state := StateUp
	if c.draining.Load() {
		state = StateDraining
	}
	return ConnInfo{
		ConnKey:  c.key,
		PeerPort: c.peer,
		Client:   c.client,
		Provider: c.l.cfg.Provider.Name(),
		Service:  c.l.cfg.Service,
		State:    state,
		InFlight: int(c.handler.inFlight.Load()),
		Info:     c.link.Info(),
		Stats:    c.link.Stats(),
		Sizes:    c.link.Sizes(),
		Settings: c.settings.Load(),
	}
}

// find looks a connection up.
func (d *Dataplane) find(id string) (*conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.conns.byID[id]
	if c == nil {
		return nil, fmt.Errorf("connection %s: %w", id, ErrNotFound)
	}
	return c, nil
}

// Connections describes all connections, in the order of their coming up.
func (d *Dataplane) Connections() []ConnInfo {
	all := d.snapshot()
	out := make([]ConnInfo, len(all))
	for i, c := range all {
		out[i] = c.info()
	}
	return out
}

// snapshot is the registry's content by id.
func (d *Dataplane) snapshot() []*conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.conns.all)
}

// Connection describes one connection; ErrNotFound when it is gone.
func (d *Dataplane) Connection(id string) (ConnInfo, error) {
	c, err := d.find(id)
	if err != nil {
		return ConnInfo{}, err
	}
	info := c.info()
	info.SendHeld = c.heldNow()
	return info, nil
}
