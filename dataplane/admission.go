package dataplane

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma"
)

// tableLimits converts l for the connlimit table.
func (l *Limits) tableLimits() connlimit.Limits {
	return connlimit.Limits{Total: l.Connections, PerKey: l.ConnectionsPerPeer, Idle: l.Idle, HalfOpen: halfOpenTime}
}

// room returns for how many more connections the listener's memory has room. Each handshake
// that is in progress counts as one without memory. They are counted first: one that takes its
// memory and ends meanwhile counts twice instead of not at all.
func (l *Listener) room() int {
	made, _ := l.handshakes.Used()
	return max(l.rl.Room(l.d.typical(l.name))-int(made), 0)
}

// fitLocked limits the listener's connections to the number for which its memory has room. It
// reports whether that is fewer than the listener's limits allow. The caller holds
// Dataplane.mu.
func (l *Listener) fitLocked(room int) (scarce bool) {
	total := l.limits.Connections
	if most := max(l.places.Stats().Held+room, 1); total == 0 || most < total {
		total, scarce = most, true
	}
	l.places.SetTotal(total)
	return scarce
}

// enter takes a place for c in its listener and in the data plane. It may evict another
// connection. The error is a *RefusedError.
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
	case c.e.d.wantsDescriptorsLocked(err):
		refused.Text += "; the files that may be open allow no more: raise ulimit -n, or LimitNOFILE"
	}
	return refused
}

// admit gives a connection its id and settings, before the peer is answered. The ids of
// connections that do not come up are not reused. The connection leaves its place when it
// ends or does not come up. The error is a *RefusedError.
func (d *Dataplane) admit(l *Listener, peer netip.AddrPort) (*conn, error) {
	addr := peer.Addr().Unmap()
	if !l.access.Load().Permits(addr) {
		return nil, &RefusedError{RefusedDenied, "the listener's allow and deny keep this address out"}
	}
	c, err := l.placed(peer, addr, l.room())
	if err != nil {
		return nil, err
	}
	c.resolve()
	return c, nil
}

// placed makes the connection of a peer that has a place.
func (l *Listener) placed(peer netip.AddrPort, addr netip.Addr, room int) (*conn, error) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.stopsLocked() {
		return nil, &RefusedError{RefusedStopping, ErrShutdown.Error()}
	}
	c := l.newConn()
	c.l, c.peer, c.key.Peer, c.handler.next = l, peer, addr, l.handler
	if err := c.enter(addr, room); err != nil {
		return nil, err
	}
	c.connecting, c.giveUp = context.WithCancel(l.ctx)
	c.settled = make(chan struct{})
	c.numberLocked()
	return c, nil
}

// typical returns the settings of a listener's connections, without settings for particular
// peers.
func (d *Dataplane) typical(listener string) *rpcrdma.Settings {
	d.mu.Lock()
	resolve := d.resolve
	d.mu.Unlock()
	return resolve(ConnKey{Listener: listener})
}

// Limits returns the limits of all listeners together, with defaults filled in.
func (d *Dataplane) Limits() Limits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits
}

// SetLimits changes the limits of all listeners together. Connections over a lowered limit
// stay until they are idle and others need their places.
func (d *Dataplane) SetLimits(l Limits) {
	l = l.withDefaults(planeDefaults)
	d.mu.Lock()
	d.limits = l
	d.places.SetLimits(d.tableLimitsLocked())
	d.mu.Unlock()
	d.handshakes.SetLimit(int64(l.Handshakes))
}
