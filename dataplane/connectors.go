package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// reasonConnector is why a connection ends with its connector.
const reasonConnector = "the connector was removed"

// ConnectorConfig describes a connector: it makes an RPC-over-RDMA connection
// for each of its TCP clients.
type ConnectorConfig struct {
	// Name is unique among connectors and listeners; settings refer to it as
	// to a listener's.
	Name     string
	Provider rdmacm.Provider
	// Target is host:port of the server, Address where clients come in.
	Target  string
	Address netip.AddrPort
	// Limits and Access are about the clients.
	Limits Limits
	Access Access
	// Stats gives the counters of the TCP side, without waiting.
	Stats func() ConnectorStats
}

// ConnectorStats is what a connector has done with its TCP clients since it was
// made.
type ConnectorStats struct {
	Calls      uint64 // received from clients
	Replies    uint64 // written to clients
	Failed     uint64 // calls that were answered here, as the target's answer could not be passed on
	Duplicates uint64 // calls with the XID of one in flight, dropped
	Callbacks  uint64 // calls of the target
	Unanswered uint64 // of these, those that the client let time out
	Stray      uint64 // replies of clients that nobody waited for
	// Disconnects are clients that reset their connection before all of their
	// calls were answered.
	Disconnects uint64
	// BytesReceived and BytesSent count records with their marks.
	BytesReceived, BytesSent uint64
}

// Connector is a connector's place in the data plane. Its connections are
// among the others, with the settings of a listener of its name; they count
// for the data plane's limits, with the address of their client.
type Connector struct {
	cfg ConnectorConfig
	l   *listener // that listens on nothing
}

// ConnectorInfo describes a connector.
type ConnectorInfo struct {
	Name, Provider, Target string
	Address                netip.AddrPort // as bound
	State                  string         // up; draining while it is being removed
	Connections            int
	Accepted               uint64 // clients for whom the target could be connected to
	Refused                uint64 // clients refused, for all reasons
	Refusals               Refusals
	Since                  time.Time
	Evicted                connlimit.Counts // clients that lost their place to others, or by age
	Limits                 Limits           // defaults filled in
	Access                 Access           // not to be changed
	Totals                 rpcrdma.Stats    // over RDMA
	Memory                 int64            // registered for the connections that are up, in bytes
	TCP                    ConnectorStats
}

// AddConnector makes a place for a connector. The error is ErrExists,
// ErrShutdown, a *LimitError or an *AccessError, with its name.
func (d *Dataplane) AddConnector(cfg ConnectorConfig) (*Connector, error) {
	if err := cfg.Limits.Check(); err != nil {
		return nil, fmt.Errorf("connector %s: limits.%w", cfg.Name, err)
	}
	access, err := cfg.Access.normal()
	if err != nil {
		return nil, fmt.Errorf("connector %s: %w", cfg.Name, err)
	}
	l := &listener{
		d: d, cfg: ListenerConfig{Name: cfg.Name, Provider: cfg.Provider, Service: cfg.Target},
		since: time.Now(), handler: new(measured), refused: new(refusalLog), places: d.newPlaces("connector " + cfg.Name),
	}
	l.access.Store(access)
	k := &Connector{cfg: cfg, l: l}
	k.setLimitsLocked(cfg.Limits) // nobody else knows it yet
	d.mu.Lock()
	defer d.mu.Unlock()
	k.followLocked()
	if err := d.freeLocked(cfg.Name); err != nil {
		return nil, fmt.Errorf("connector %s: %w", cfg.Name, err)
	}
	d.connectors[cfg.Name] = k
	return k, nil
}

// Remove drains the connector's connections; those not done when ctx ends are
// closed. The connector has seen to it that no client is admitted any more;
// wait waits for it to have left every Seat.
func (k *Connector) Remove(ctx context.Context, wait func()) Removed {
	d := k.l.d
	all, cut := d.drainAll(ctx, reasonConnector, func(c *conn) bool { return c.l == k.l })
	wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connectors[k.cfg.Name] == k {
		delete(d.connectors, k.cfg.Name)
	}
	return Removed{Drained: all - cut, Cut: cut}
}

// Stopping says that no client is to be admitted any more.
func (k *Connector) Stopping() {
	k.l.d.mu.Lock()
	defer k.l.d.mu.Unlock()
	k.l.draining = true
}

// Update changes limits and access for clients to come, as a whole or not at
// all. The error is a *LimitError or an *AccessError, with the name.
func (k *Connector) Update(limits Limits, access Access) error {
	if err := limits.Check(); err != nil {
		return fmt.Errorf("connector %s: limits.%w", k.cfg.Name, err)
	}
	a, err := access.normal()
	if err != nil {
		return fmt.Errorf("connector %s: %w", k.cfg.Name, err)
	}
	k.l.d.mu.Lock()
	defer k.l.d.mu.Unlock()
	k.l.access.Store(a)
	k.setLimitsLocked(limits)
	return nil
}

// setLimitsLocked puts limits in force. By default one address can't take all
// places.
func (k *Connector) setLimitsLocked(v Limits) {
	v.Connections = cmp.Or(v.Connections, rpctcp.DefaultConnections)
	v.ConnectionsPerPeer = cmp.Or(v.ConnectionsPerPeer, rpctcp.DefaultConnectionsPerPeer)
	k.l.setLimitsLocked(v)
	k.followLocked()
}

// followLocked puts the connector's limits in force. The times after which clients
// are closed are those of the TCP services, except for an idle time of its own.
func (k *Connector) followLocked() {
	l := k.l.d.tcp.Limits()
	l.Total, l.PerKey = k.l.limits.Connections, k.l.limits.ConnectionsPerPeer
	if own := k.l.limits.Idle; own > 0 {
		l.Idle = own
	}
	k.l.places.SetLimits(l)
}

// Places is the table of the connector's clients. The caller of Admit also calls
// the table's Run.
func (k *Connector) Places() *connlimit.Table { return k.l.places }

// Connectors describes all connectors, by name.
func (d *Dataplane) Connectors() []ConnectorInfo {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]ConnectorInfo, 0, len(d.connectors))
	for _, k := range d.connectors {
		out = append(out, k.infoLocked())
	}
	slices.SortFunc(out, func(a, b ConnectorInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (k *Connector) infoLocked() ConnectorInfo {
	l := k.l
	info := ConnectorInfo{
		Name: k.cfg.Name, Provider: k.cfg.Provider.Name(), Target: k.cfg.Target, Address: k.cfg.Address,
		State: StateUp, Connections: l.up, Accepted: l.accepted.Load(), Refusals: l.refused.snapshot(),
		Since: l.since, Evicted: l.places.Stats().Evicted, Limits: l.limits, Access: *l.access.Load(), Totals: l.gone,
		TCP: k.cfg.Stats(),
	}
	if l.draining {
		info.State = StateDraining
	}
	info.Refused = info.Refusals.Sum()
	for _, c := range l.d.conns.all {
		if c.l == l {
			one := c.link.Stats()
			addStats(&info.Totals, &one)
			info.Memory += c.memory().Registered
		}
	}
	return info
}

// EnterHandshake waits for room among the connections being made, and takes
// it; LeaveHandshake gives it back. The error is a *RefusedError.
func (k *Connector) EnterHandshake(ctx context.Context) error {
	if k.l.handshakes.enter(ctx) {
		if k.l.d.handshakes.enter(ctx) {
			return nil
		}
		k.l.handshakes.leave()
	}
	return &RefusedError{RefusedHandshake, "too many connections are being made at once"}
}

// LeaveHandshake gives the room of EnterHandshake back.
func (k *Connector) LeaveHandshake() {
	k.l.d.handshakes.leave()
	k.l.handshakes.leave()
}

// Refuse counts and logs a client that got no connection.
func (k *Connector) Refuse(client netip.AddrPort, err error) {
	why := RefusedHandshake
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		why = refused.Refusal
	} else if k.stopping() {
		why = RefusedStopping
	}
	k.l.refused.note(k.l.d.log, k.cfg.Name, client, why, err.Error())
}

func (k *Connector) stopping() bool {
	k.l.d.mu.Lock()
	defer k.l.d.mu.Unlock()
	return k.l.draining || k.l.d.stopping
}

// Seat is a client's place: admitted, then perhaps up, then left. Abandon or
// Down leaves it.
type Seat struct {
	c   *conn
	tap *rpcrdma.Tap
}

// Admit takes a place for a client. If all are taken, h takes the place of the
// client that has been idle for longest. The error is a *RefusedError.
func (k *Connector) Admit(client netip.AddrPort, h connlimit.Holder) (*Seat, error) {
	l, addr := k.l, client.Addr().Unmap()
	if !l.access.Load().Permits(addr) {
		return nil, &RefusedError{RefusedDenied, "the connector's allow and deny keep this address out"}
	}
	if err := k.refuses(); err != nil {
		return nil, err
	}
	place, err := l.places.Admit(time.Now(), connlimit.Address(addr), connlimit.Ordinary, h)
	if err != nil {
		return nil, noPlace(err)
	}
	c, err := k.admit(client, place)
	if err != nil {
		place.Leave()
		return nil, err
	}
	return &Seat{c, new(rpcrdma.Tap)}, nil
}

// noPlace converts a connlimit error.
func noPlace(err error) *RefusedError {
	why := RefusedConnections
	if e, ok := errors.AsType[*connlimit.RefusedError](err); ok && e.Reason == connlimit.PerKey {
		why = RefusedPerPeer
	}
	return &RefusedError{why, err.Error()}
}

// refuses says why a client is refused whatever the limits. Admit asks before it
// takes a place, so that no other client loses its place in vain.
func (k *Connector) refuses() error {
	k.l.d.mu.Lock()
	defer k.l.d.mu.Unlock()
	return k.refusesLocked()
}

func (k *Connector) refusesLocked() error {
	l, d := k.l, k.l.d
	if d.stopping || l.draining {
		return &RefusedError{RefusedStopping, ErrShutdown.Error()}
	}
	if d.division.used(len(d.listeners)) {
		return &RefusedError{RefusedMemory, "the registered memory (limits.memory) is in use"}
	}
	return nil
}

// admit makes the connection of a client that has a place.
func (k *Connector) admit(client netip.AddrPort, place *connlimit.Place) (*conn, error) {
	l, d := k.l, k.l.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := k.refusesLocked(); err != nil {
		return nil, err
	}
	d.lastID++
	c := &conn{l: l, key: ConnKey{Listener: l.cfg.Name, ID: strconv.FormatUint(d.lastID, 10)}, client: client, place: place, gone: make(chan struct{})}
	c.handler.measured = l.handler
	return c, nil
}

// Target says where the connection is going to, on which its settings depend;
// once, before the others.
func (s *Seat) Target(a netip.AddrPort) {
	c, d := s.c, s.c.l.d
	c.key.Peer, c.peer = a.Addr().Unmap(), a
	d.mu.Lock()
	resolve := d.resolve
	c.revision = d.revision
	d.mu.Unlock()
	c.atConnect = resolve(c.key)
	c.settings.Store(c.atConnect)
}

// ID is the connection's, as operators know it.
func (s *Seat) ID() string { return s.c.key.ID }

// Settings are those for connecting, not to be changed.
func (s *Seat) Settings() *rpcrdma.Settings { return s.c.atConnect }

// Used says that the client has used its connection.
func (s *Seat) Used(now time.Time) { s.c.place.Touch(now) }

// Began and Ended count the calls in flight.
func (s *Seat) Began() { s.c.handler.inFlight.Add(1) }

// Ended is a call less in flight.
func (s *Seat) Ended() {
	s.c.place.Touch(time.Now())
	s.c.handler.inFlight.Add(-1)
}

// Abandon leaves a place whose connection did not come up.
func (s *Seat) Abandon() { s.c.place.Leave() }

// Tap is where the connection is to be looked at.
func (s *Seat) Tap() *rpcrdma.Tap { return s.tap }

// Up makes the connection visible, of which peer and own are the private data
// of the handshake. It has ended when Down is called.
func (s *Seat) Up(l ConnectorLink, peer, own []byte) {
	c := s.c
	c.link, c.memory = l, l.Memory
	c.trace = c.l.d.tracing.AddTapped(trace.Info{
		ID: c.key.ID, Listener: c.key.Listener, Local: l.Info().Local, Peer: c.peer, PeerPrivate: peer, OwnPrivate: own, Began: true,
	}, s.tap)
	c.l.d.register(c)
	if c.lost != "" {
		c.l.d.running.Go(func() { c.end(c.lost) })
	}
}

// Down leaves the place of a connection that was up.
func (s *Seat) Down() {
	<-s.c.link.Done()
	s.c.link.Close()
	s.c.leave()
}
