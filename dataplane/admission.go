package dataplane

import (
	"fmt"
	"net/netip"
	"strconv"
)

// tally counts connections being made or up, in all and by address. An entry
// lasts as long as its connections, so that peers can't fill it.
type tally struct {
	all   int
	peers map[netip.Addr]int
}

func newTally() tally { return tally{peers: make(map[netip.Addr]int)} }

func (t *tally) add(peer netip.Addr) {
	t.all++
	t.peers[peer]++
}

func (t *tally) remove(peer netip.Addr) {
	t.all--
	if t.peers[peer]--; t.peers[peer] == 0 {
		delete(t.peers, peer)
	}
}

// room says whether one more of a peer is within the limits; where names
// whose limits they are.
func (t *tally) room(peer netip.Addr, l *Limits, where string) *RefusedError {
	if l.Connections > 0 && t.all >= l.Connections {
		return &RefusedError{RefusedConnections, fmt.Sprintf("%d connections%s are up, no more are allowed", t.all, where)}
	}
	if n := t.peers[peer]; l.ConnectionsPerPeer > 0 && n >= l.ConnectionsPerPeer {
		return &RefusedError{RefusedPerPeer, fmt.Sprintf("%d connections%s of this peer are up, no more are allowed", n, where)}
	}
	return nil
}

// admit gives a connection its id and settings, before the peer is answered;
// ids of connections that don't come up are not used again. What it counts,
// leave uncounts. The error is a *RefusedError.
func (d *Dataplane) admit(l *listener, peer netip.AddrPort) (*conn, error) {
	addr := peer.Addr().Unmap()
	if !l.access.Load().Permits(addr) {
		return nil, &RefusedError{RefusedDenied, "the listener's allow and deny keep this address out"}
	}
	d.mu.Lock()
	if d.stopping || l.draining {
		d.mu.Unlock()
		return nil, &RefusedError{RefusedStopping, ErrShutdown.Error()}
	}
	refused := l.made.room(addr, &l.limits, " of the listener")
	if refused == nil {
		refused = d.made.room(addr, &d.limits, "")
	}
	if refused != nil {
		d.mu.Unlock()
		return nil, refused
	}
	d.made.add(addr)
	l.made.add(addr)
	d.lastID++
	c := &conn{
		l:        l,
		key:      ConnKey{Listener: l.cfg.Name, Peer: addr, ID: strconv.FormatUint(d.lastID, 10)},
		peer:     peer,
		gone:     make(chan struct{}),
		revision: d.revision,
	}
	c.handler.measured, c.handler.next = l.handler, l.cfg.Handler
	resolve := d.resolve
	d.mu.Unlock()
	c.atConnect = resolve(c.key)
	c.settings.Store(c.atConnect)
	return c, nil
}

// leaveLocked gives c's place to others.
func (c *conn) leaveLocked() {
	addr := c.key.Peer
	if c.client.IsValid() {
		addr = c.client.Addr().Unmap()
	}
	c.l.d.made.remove(addr)
	c.l.made.remove(addr)
}

// abandon gives up a connection that was admitted and didn't come up.
func (c *conn) abandon() {
	c.l.d.mu.Lock()
	defer c.l.d.mu.Unlock()
	c.leaveLocked()
}

// Limits are those of all listeners together, defaults filled in.
func (d *Dataplane) Limits() Limits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits
}

// SetLimits changes the limits of all listeners together for connections to
// come; those that are up stay, even over a limit. The error is a
// *LimitError.
func (d *Dataplane) SetLimits(l Limits) error {
	if err := l.Check(); err != nil {
		return err
	}
	l = l.withDefaults(DefaultMaxConnections, DefaultMaxHandshakes)
	d.mu.Lock()
	d.limits = l
	d.mu.Unlock()
	d.handshakes.setLimit(l.Handshakes)
	return nil
}
