package dataplane

import (
	"errors"
	"net/netip"
	"strconv"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma"
)

// tableLimits converts l for the connlimit table.
func (l *Limits) tableLimits() connlimit.Limits {
	return connlimit.Limits{Total: l.Connections, PerKey: l.ConnectionsPerPeer, Idle: l.Idle, HalfOpen: halfOpenTime}
}

// fitLocked has the listener hold no more connections than its memory has room for,
// those being made included; Dataplane.mu is held. It says whether that is fewer than
// its limits allow.
func (l *listener) fitLocked(room int) (scarce bool) {
	total := l.limits.Connections
	if most := max(l.places.Stats().Held+max(room-l.handshakes.inside(), 0), 1); total == 0 || most < total {
		total, scarce = most, true
	}
	l.places.SetTotal(total)
	return scarce
}

// enter takes a place for c in its listener and in the data plane. It may evict
// another connection. The error is a *RefusedError.
func (c *conn) enter(client netip.Addr, room int) error {
	scarce := c.l.fitLocked(room)
	var err error
	if c.place, err = c.l.places.Admit(time.Now(), connlimit.Address(client), connlimit.Ordinary, c); err == nil {
		c.handler.place = c.place
		return nil
	}
	refused := noPlace(err)
	full, _ := errors.AsType[*connlimit.RefusedError](err)
	switch {
	case scarce && full.Reason == connlimit.Total && full.Table != "": // the listener's
		refused.Refusal = RefusedMemory
		refused.Text += "; there is memory for no more: raise limits.memory, or lower credits.max or inline.receive_size"
	case c.l.d.wantsDescriptorsLocked(err):
		refused.Text += "; the files that may be open allow no more: raise ulimit -n, or LimitNOFILE"
	}
	return refused
}

// admit gives a connection its id and settings, before the peer is answered;
// ids of connections that don't come up are not used again. Its place is
// left when it is down, or didn't come up. The error is a *RefusedError.
func (d *Dataplane) admit(l *listener, peer netip.AddrPort) (*conn, error) {
	addr := peer.Addr().Unmap()
	if !l.access.Load().Permits(addr) {
		return nil, &RefusedError{RefusedDenied, "the listener's allow and deny keep this address out"}
	}
	room := l.rl.Room(d.typical(l.cfg.Name))
	d.mu.Lock()
	if d.stopping || l.draining {
		d.mu.Unlock()
		return nil, &RefusedError{RefusedStopping, ErrShutdown.Error()}
	}
	c := &conn{
		l:        l,
		peer:     peer,
		gone:     make(chan struct{}),
		revision: d.revision,
	}
	c.handler.measured, c.handler.next = l.handler, l.cfg.Handler
	if err := c.enter(addr, room); err != nil {
		d.mu.Unlock()
		return nil, err
	}
	d.lastID++
	c.key = ConnKey{Listener: l.cfg.Name, Peer: addr, ID: strconv.FormatUint(d.lastID, 10)}
	resolve := d.resolve
	d.mu.Unlock()
	c.atConnect = resolve(c.key)
	c.settings.Store(c.atConnect)
	return c, nil
}

// typical are the settings of a listener's connections but those of peers that
// have others.
func (d *Dataplane) typical(listener string) *rpcrdma.Settings {
	d.mu.Lock()
	resolve := d.resolve
	d.mu.Unlock()
	return resolve(ConnKey{Listener: listener})
}

// Limits are those of all listeners together, defaults filled in.
func (d *Dataplane) Limits() Limits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits
}

// SetLimits changes the limits of all listeners together. Connections over a
// lowered limit stay until they are idle and others need their places. The
// error is a *LimitError.
func (d *Dataplane) SetLimits(l Limits) error {
	if err := l.Check(); err != nil {
		return err
	}
	l = l.planeDefaults()
	d.mu.Lock()
	d.limits = l
	d.places.SetLimits(d.tableLimitsLocked())
	d.mu.Unlock()
	d.handshakes.setLimit(l.Handshakes)
	return nil
}
