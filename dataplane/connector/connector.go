package connector

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// retryAccept is the pause after a failed accept, for example for lack of descriptors.
const retryAccept = 100 * time.Millisecond

// Connector accepts TCP clients. Its methods are safe for concurrent use.
type Connector struct {
	cfg    Config
	log    *slog.Logger
	place  *dataplane.Connector
	listen net.Listener
	memory *fair.Pool    // bytes of the calls of all clients
	spares rpctcp.Spares // storage of calls and replies
	relief *rpctcp.Relief
	// reserve lets one call go on when the process has no other memory: the target may be a listener here, which
	// needs memory to answer the calls that hold all.
	reserve *rpcrdma.Reserve
	// versions remembers whether the target speaks version 1 only.
	versions rpcrdma.VersionMemory
	stats    counters
	// fresh is how long a client is fresh, and how much longer a fresh one is served when the
	// connector is shut down: rpctcp.FreshTime.
	fresh time.Duration

	ctx     context.Context // ends when clients that are not up yet are given up
	cancel  context.CancelFunc
	making  sync.WaitGroup // the accept loop, and clients that are not up yet
	running sync.WaitGroup

	mu      sync.Mutex
	started bool
}

// counters are the counters behind Stats.
type counters struct {
	calls, replies, failed, duplicates, callbacks, unanswered, stray, disconnects, bytesIn, bytesOut atomic.Uint64
}

// Stats counts what a connector has done since it was made.
type Stats = dataplane.ConnectorStats

// BindError means that the address could not be bound.
type BindError struct{ Err error }

func (e *BindError) Error() string { return e.Err.Error() }

func (e *BindError) Unwrap() error { return e.Err }

// Prepare binds a connector. Enter lists it, and Start begins to accept. Shutdown frees the
// connector, even without Enter and Start. The error is a *BindError or one of
// dataplane.PrepareConnector.
func Prepare(ctx context.Context, cfg Config) (*Connector, error) {
	cfg = cfg.withDefaults()
	l, err := tcpaddr.Listen(ctx, cfg.Listen)
	if err != nil {
		return nil, &BindError{err}
	}
	c := &Connector{
		cfg: cfg, log: cfg.Logger.With("connector", cfg.Name), listen: l,
		memory: fair.NewPool(int64(cfg.Limits.Memory), mostOfCall), spares: rpctcp.NewSpares(keepStream),
		fresh: rpctcp.FreshTime,
	}
	c.relief = rpctcp.NewRelief(func() int { return c.memory.Usage().Waiting + offheap.Waiting() })
	c.place, err = cfg.Dataplane.PrepareConnector(dataplane.ConnectorConfig{
		Name: cfg.Name, Provider: cfg.Provider, Target: cfg.Target, Address: tcpaddr.Of(l.Addr()),
		Limits: cfg.Limits.Limits, Access: cfg.Access, Stats: c.Stats,
	})
	if err != nil {
		l.Close()
		return nil, err
	}
	c.reserve = rpcrdma.NewReserve()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Enter lists the connector, in place of the one of its name, if any.
func (c *Connector) Enter() { c.place.Enter() }

// Sockets returns the socket at which clients connect.
func (c *Connector) Sockets() []net.Listener { return []net.Listener{c.listen} }

// Update changes limits and access for new clients. See dataplane.Connector.
func (c *Connector) Update(l dataplane.Limits, a dataplane.Access) error { return c.place.Update(l, a) }

// SetMemory changes the limit of the memory of all calls, in bytes. Calls keep what they have.
func (c *Connector) SetMemory(limit int64) { c.memory.SetLimit(limit) }

// Addr returns the bound address.
func (c *Connector) Addr() netip.AddrPort { return tcpaddr.Of(c.listen.Addr()) }

// Stats returns the current counters.
func (c *Connector) Stats() Stats {
	n := &c.stats
	return Stats{
		Calls: n.calls.Load(), Replies: n.replies.Load(), Failed: n.failed.Load(), Duplicates: n.duplicates.Load(),
		Callbacks: n.callbacks.Load(), Unanswered: n.unanswered.Load(), Stray: n.stray.Load(),
		Disconnects:   n.disconnects.Load(),
		BytesReceived: n.bytesIn.Load(), BytesSent: n.bytesOut.Load(),
	}
}

// Start begins to accept clients. It does not wait.
func (c *Connector) Start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.ctx.Err() != nil {
		return
	}
	c.started = true
	c.log.Info("listening", "what", "connector", "address", c.Addr().String(), "provider", c.cfg.Provider.Name(), "target", c.cfg.Target)
	c.making.Go(c.accept)
	c.running.Go(func() { c.place.Places().Run(c.ctx) })
}

// accept accepts clients until the connector stops.
func (c *Connector) accept() {
	for {
		nc, err := c.listen.Accept()
		if err == nil {
			c.take(nc)
			continue
		}
		if c.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		c.log.Error("accept failed", "error", err)
		select {
		case <-time.After(retryAccept): // descriptors may be available again by then
		case <-c.ctx.Done():
		}
	}
}

// take takes a place for a client. It refuses a client without access at once.
func (c *Connector) take(nc net.Conn) {
	cl := &client{nc: nc, addr: tcpaddr.Of(nc.RemoteAddr())}
	var err error
	if cl.seat, err = c.place.Admit(cl.addr, cl); err != nil {
		c.place.Refuse(cl.addr, err)
		nc.Close()
		return
	}
	c.making.Add(1)
	c.running.Go(func() { c.serve(cl) })
}

// serve serves a client until its end.
func (c *Connector) serve(cl *client) {
	s, err := c.connect(cl.nc, cl.seat)
	if err == nil {
		err = cl.up(s)
	}
	if err != nil {
		cl.nc.Close()
		cl.seat.Abandon()
		c.place.Refuse(cl.addr, err)
		c.making.Done()
		return
	}
	peer, own := s.rdma.PrivateData()
	cl.seat.Up(s, peer, own)
	c.making.Done()
	s.run()
	cl.seat.Down()
}

// connect makes the connection to the target. The client's settings are those for the
// target's address, which each look-up of the name may change.
func (c *Connector) connect(nc net.Conn, seat *dataplane.Seat) (*session, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.DialTimeout)
	defer cancel()
	if err := c.place.EnterHandshake(ctx); err != nil {
		return nil, cmp.Or(c.ctx.Err(), err) // that they are too many is not the reason when the connector stops
	}
	defer c.place.LeaveHandshake()
	target, err := resolve(ctx, c.cfg.Target)
	if err != nil {
		return nil, err
	}
	seat.Target(target)
	s := newSession(c, nc, seat)
	if err := s.connect(ctx, target.String()); err != nil {
		s.end(nil)
		s.free()
		return nil, err
	}
	return s, nil
}

// resolve looks up a target. As with providers, and so with Probe, IPv4 comes first: a target
// need not listen on all addresses of its name.
func resolve(ctx context.Context, target string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(target); err == nil {
		return a, nil
	}
	host, service, err := net.SplitHostPort(target)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return netip.AddrPort{}, err
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	first := max(slices.IndexFunc(all, func(a netip.Addr) bool { return a.Unmap().Is4() }), 0)
	return netip.AddrPortFrom(all[first].Unmap(), uint16(port)), nil
}

// Shutdown stops accepting, waits for the calls in flight, and disconnects both sides of
// every client. Clients that are not up yet may come up, and fresh ones make calls, for another
// moment: they may be about to mount, and mount(8) fails if their connection ends before. When ctx
// ends first, it closes the remaining clients and returns their number. When it returns, nothing
// of the connector runs any more.
func (c *Connector) Shutdown(ctx context.Context) dataplane.Removed {
	c.mu.Lock()
	c.started = true // not any more, if it did not
	c.mu.Unlock()
	c.listen.Close() // new clients wait for a successor
	moment, over := context.WithTimeout(ctx, c.fresh)
	defer over()
	defer context.AfterFunc(moment, c.stop)()
	defer c.reserve.Close()
	return c.place.Remove(ctx, func() {
		c.making.Wait()
		c.stop()
	}, c.running.Wait)
}

// stop gives up clients that are not up yet.
func (c *Connector) stop() {
	c.place.Stopping()
	c.cancel()
}

// Close is like Shutdown, but does not wait for calls in flight.
func (c *Connector) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.Shutdown(ctx)
}

// about returns the log for a line about a call that the connector answers itself.
func (s *session) about(cl *call, err error) *slog.Logger {
	return s.c.log.With("conn", s.seat.ID(), "peer", s.client.String(),
		"program", cl.hdr.Program, "version", cl.hdr.Version, "procedure", cl.hdr.Procedure, "error", err.Error())
}
