package dataplane

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// ConnectorConfig describes a connector, which makes an RPC-over-RDMA connection for each of
// its TCP clients.
type ConnectorConfig struct {
	// Name is unique among connectors and listeners. Settings refer to it in the scope
	// listener/NAME.
	Name     string
	Provider rdmacm.Provider
	// Target is host:port of the server. Address is the address at which clients connect.
	Target  string
	Address netip.AddrPort
	// Limits and Access apply to the clients.
	Limits Limits
	Access Access
	// Stats returns the counters of the TCP side. It must not wait.
	Stats func() ConnectorStats
}

// ConnectorStats counts the events of a connector with its TCP clients since it was made.
type ConnectorStats struct {
	Calls      uint64 // received from clients
	Replies    uint64 // written to clients
	Failed     uint64 // calls that rdmad answered with an error: too long, not valid, or the target's answer could not be passed on
	Duplicates uint64 // calls with the XID of a call in flight, dropped
	Callbacks  uint64 // calls of the target
	Unanswered uint64 // callbacks that the client did not answer in time
	Stray      uint64 // replies of clients for which nobody waited
	// Disconnects counts clients that reset their connection before all their calls were
	// answered.
	Disconnects uint64
	// BytesReceived and BytesSent count records, including their record marks.
	BytesReceived, BytesSent uint64
}

// Connector is a connector's part of the data plane. The data plane lists its connections
// with the others. They have the settings of a listener of its name, and count for the data
// plane's limits under the address of their client.
type Connector struct {
	endpoint
	cfg ConnectorConfig
}

// ConnectorInfo describes a connector. Accepted counts clients whose connection to the
// target came up.
type ConnectorInfo struct {
	EndpointInfo
	Target  string
	Evicted connlimit.Counts // clients that lost their places to others or because of age
	Totals  rpcrdma.Stats    // over RDMA
	Memory  int64            // registered for the connections that are up, in bytes
	TCP     ConnectorStats
}

// PrepareConnector makes a connector, which is not listed before Enter. The error is an
// *AccessError, or a *NoMemoryError if connectors have left no memory for its
// first client, with the connector's name.
func (d *Dataplane) PrepareConnector(cfg ConnectorConfig) (*Connector, error) {
	k := &Connector{
		endpoint: endpoint{
			kind: "connector", name: cfg.Name, provider: cfg.Provider, service: cfg.Target,
			defaults: Limits{ // a single address must not take all places
				Connections: rpctcp.DefaultConnections, ConnectionsPerPeer: rpctcp.DefaultConnectionsPerPeer, Handshakes: DefaultListenerHandshakes,
			},
			descriptors: cfg.Provider.Descriptors() + ClientDescriptors,
		},
		cfg: cfg,
	}
	k.table = k.tcpTable
	if err := k.init(d, cfg.Limits, cfg.Access); err != nil {
		return nil, k.failed(err)
	}
	if err := d.division.leaves(d); err != nil {
		return nil, k.failed(err)
	}
	return k, nil
}

// Enter lists the connector, in place of the one of its name, if any.
func (k *Connector) Enter() {
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	k.places.SetLimits(k.table()) // the times may have changed meanwhile
	k.d.connectors[k.name] = k
}

// Remove drains the connector's connections. When ctx ends, it closes the remaining ones. settle
// waits until no more come up, which then are drained, too. wait waits until the connector has left
// every Seat.
func (k *Connector) Remove(ctx context.Context, settle, wait func()) Removed {
	removed := k.drain(ctx, func() bool {
		settle()
		return false
	})
	wait()
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	if k.d.connectors[k.name] == k {
		delete(k.d.connectors, k.name)
	}
	return removed
}

// tcpTable returns the limits of clients. Their timeouts are those of the TCP services,
// except an idle time of the connector's own.
func (k *Connector) tcpTable() connlimit.Limits {
	l := k.d.tcp.Limits()
	l.Total, l.PerKey = k.limits.Connections, k.limits.ConnectionsPerPeer
	if own := k.limits.Idle; own > 0 {
		l.Idle = own
	}
	return l
}

// Places returns the table of the connector's clients. The caller of Admit must also call
// the table's Run.
func (k *Connector) Places() *connlimit.Table { return k.places }

// Connectors describes all connectors, by name.
func (d *Dataplane) Connectors() []ConnectorInfo {
	d.recount()
	return described(d, d.connectors)
}

func (k *Connector) infoLocked() ConnectorInfo {
	info := ConnectorInfo{
		EndpointInfo: k.commonLocked(k.cfg.Address), Target: k.service,
		Evicted: k.places.Stats().Evicted, Totals: k.sums.stats, TCP: k.cfg.Stats(),
	}
	for _, c := range k.d.conns.all {
		if c.e == &k.endpoint {
			info.Memory += c.memory().Registered
		}
	}
	return info
}

// Refuse counts and logs a client whose connection did not come up.
func (k *Connector) Refuse(client netip.AddrPort, err error) {
	why := RefusedHandshake
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		why = refused.Refusal
	} else if k.stops() {
		why = RefusedStopping
	}
	k.refused.note(k.d.log, k.name, client, why, err.Error())
}

func (k *Connector) stops() bool {
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	return k.stopsLocked()
}

// Seat is a client's place. The client is admitted, may come up, and leaves. Abandon or Down
// leaves the place.
type Seat struct {
	c   *conn
	tap *rpcrdma.Tap
}

// Admit takes a place for a client. If all places are taken, the client evicts the client
// that has been idle longest. h represents the new client. The Evict of clients must not call the
// data plane. The error is a *RefusedError.
func (k *Connector) Admit(client netip.AddrPort, h connlimit.Holder) (*Seat, error) {
	addr := client.Addr().Unmap()
	if !k.access.Load().Permits(addr) {
		return nil, &RefusedError{RefusedDenied, "the connector's allow and deny keep this address out"}
	}
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	switch {
	case k.stopsLocked():
		return nil, &RefusedError{RefusedStopping, ErrShutdown.Error()}
	case k.d.division.used(len(k.d.listeners) + len(k.d.leaving)):
		return nil, &RefusedError{RefusedMemory, "the registered memory (limits.memory) is in use"}
	}
	c := k.newConn()
	c.client = client
	var err error
	if c.place, err = k.places.Admit(time.Now(), connlimit.Address(addr), connlimit.Ordinary, h); err != nil {
		return nil, noPlace(err)
	}
	c.numberLocked()
	return &Seat{c, new(rpcrdma.Tap)}, nil
}

// noPlace converts an error of connlimit.
func noPlace(err error) *RefusedError {
	why := RefusedConnections
	if e, ok := errors.AsType[*connlimit.RefusedError](err); ok && e.Reason == connlimit.PerKey {
		why = RefusedPerPeer
	}
	return &RefusedError{why, err.Error()}
}

// Target sets the address of the target, on which the settings depend. Call it once, before
// the other methods.
func (s *Seat) Target(a netip.AddrPort) {
	s.c.key.Peer, s.c.peer = a.Addr().Unmap(), a
	s.c.resolve()
}

// ID returns the connection's id.
func (s *Seat) ID() string { return s.c.key.ID }

// Settings returns the settings for connecting. The caller must not change them.
func (s *Seat) Settings() *rpcrdma.Settings { return s.c.atConnect }

// Began counts a call that is in flight now.
func (s *Seat) Began() { s.c.handler.inFlight.Add(1) }

// Ended counts a call that is no longer in flight.
func (s *Seat) Ended() {
	s.c.place.Touch(time.Now())
	s.c.handler.inFlight.Add(-1)
}

// Took counts the time that the target took for a call.
func (s *Seat) Took(d time.Duration) {
	s.c.handler.spent.Add(int64(d))
	s.c.moved.Set()
}

// Abandon leaves the place of a connection that did not come up.
func (s *Seat) Abandon() { s.c.place.Leave() }

// SlowCalls returns what finds, keeps and logs the slow calls of the client.
func (s *Seat) SlowCalls() rpcrdma.SlowCalls { return s.c.slowCalls(s.c.client, s.c.logger()) }

// Tap returns the tap through which watchers observe the connection.
func (s *Seat) Tap() *rpcrdma.Tap { return s.tap }

// Moved returns the mark that the connection to the target must set (rpcrdma.DialConfig).
func (s *Seat) Moved() *fair.Mark { return &s.c.moved }

// Up puts the connection into the registry. peer and own are the private data of the
// handshake. Call Down when the connection has ended.
func (s *Seat) Up(l ConnectorLink, peer, own []byte) {
	c := s.c
	c.link, c.memory = l, l.Memory
	c.trace = c.e.d.tracing.AddTapped(trace.Info{
		ID: c.key.ID, Listener: c.key.Listener, Local: l.Info().Local, Peer: c.peer, PeerPrivate: peer, OwnPrivate: own, Began: true,
	}, s.tap)
	c.e.d.register(c)
}

// Down waits for the end of a connection that was up, and leaves its place.
func (s *Seat) Down() {
	<-s.c.link.Done()
	s.c.link.Close()
	s.c.leave()
}
