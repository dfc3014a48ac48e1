package connector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// retryAccept is the pause after accepting failed for want of resources.
const retryAccept = 100 * time.Millisecond

// Connector accepts TCP clients. All methods may be called from any goroutine.
type Connector struct {
	cfg    Config
	log    *slog.Logger
	place  *dataplane.Connector
	listen net.Listener
	memory *fair.Pool // bytes of the calls of all clients
	relief *rpctcp.Relief
	// versions remembers a target that speaks version 1 alone.
	versions rpcrdma.VersionMemory
	stats    counters

	ctx     context.Context // ends when it stops accepting
	cancel  context.CancelFunc
	making  sync.WaitGroup // accepting, and clients that are not up yet
	running sync.WaitGroup

	mu      sync.Mutex
	started bool
}

// counters are a connector's Stats as they are counted.
type counters struct {
	calls, replies, failed, duplicates, callbacks, unanswered, stray, disconnects, bytesIn, bytesOut atomic.Uint64
}

// Stats is what a connector has done since it was made.
type Stats = dataplane.ConnectorStats

// BindError is an address that could not be had.
type BindError struct{ Err error }

func (e *BindError) Error() string { return e.Err.Error() }

func (e *BindError) Unwrap() error { return e.Err }

// New binds a connector. Start lets it accept; Shutdown frees it in any case.
// The errors are *BindError and those of dataplane.AddConnector.
func New(ctx context.Context, cfg Config) (*Connector, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("connector %s: %w", cfg.Name, err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, &BindError{err}
	}
	c := &Connector{
		cfg: cfg, log: cfg.Logger.With("connector", cfg.Name), listen: l,
		memory: fair.NewPool(cfg.Memory, mostOfCall),
	}
	c.relief = rpctcp.NewRelief(func() int { return c.memory.Usage().Waiting })
	c.place, err = cfg.Dataplane.AddConnector(dataplane.ConnectorConfig{
		Name: cfg.Name, Provider: cfg.Provider, Target: cfg.Target, Address: address(l.Addr()),
		Limits: cfg.Limits, Access: cfg.Access, Stats: c.Stats,
	})
	if err != nil {
		l.Close()
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// address is a TCP address as rdmad has it.
func address(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// Addr is the address that it is bound to.
func (c *Connector) Addr() netip.AddrPort { return address(c.listen.Addr()) }

// Stats gives the present counts.
func (c *Connector) Stats() Stats {
	n := &c.stats
	return Stats{
		Calls: n.calls.Load(), Replies: n.replies.Load(), Failed: n.failed.Load(), Duplicates: n.duplicates.Load(),
		Callbacks: n.callbacks.Load(), Unanswered: n.unanswered.Load(), Stray: n.stray.Load(),
		Disconnects:   n.disconnects.Load(),
		BytesReceived: n.bytesIn.Load(), BytesSent: n.bytesOut.Load(),
	}
}

// Start accepts clients, and returns.
func (c *Connector) Start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.ctx.Err() != nil {
		return
	}
	c.started = true
	c.making.Go(c.accept)
	c.making.Go(func() { c.place.Places().Run(c.ctx) })
}

// accept takes clients until the connector stops.
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
		case <-time.After(retryAccept): // descriptors may be back by then
		case <-c.ctx.Done():
		}
	}
}

// take finds a client's place. A client that may not connect is refused here, at
// once.
func (c *Connector) take(nc net.Conn) {
	cl := &client{nc: nc, addr: address(nc.RemoteAddr())}
	var err error
	if cl.seat, err = c.place.Admit(cl.addr, cl); err != nil {
		c.place.Refuse(cl.addr, err)
		nc.Close()
		return
	}
	c.making.Add(1)
	c.running.Go(func() { c.serve(cl) })
}

// serve is a client from its coming to its end.
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

// connect makes the connection to the target. The client's settings are those
// for the target's address, which may be another each time that its name is
// looked up.
func (c *Connector) connect(nc net.Conn, seat *dataplane.Seat) (*session, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.DialTimeout)
	defer cancel()
	if err := c.place.EnterHandshake(ctx); err != nil {
		return nil, err
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

// resolve looks a target up.
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
	return netip.AddrPortFrom(all[0].Unmap(), uint16(port)), nil
}

// Shutdown stops accepting, has the calls in flight answered, and disconnects
// both sides of every client. When ctx ends first, what is left is closed at
// once, and the number of clients that were is in the answer. Nothing of the
// connector runs any more when it returns.
func (c *Connector) Shutdown(ctx context.Context) dataplane.Removed {
	c.place.Stopping()
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.listen.Close()
	c.making.Wait()
	return c.place.Remove(ctx, c.running.Wait)
}

// Close is Shutdown without waiting for calls in flight.
func (c *Connector) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.Shutdown(ctx)
}

// complain logs a call whose answer from the target could not be passed on.
func (s *session) complain(cl *call, err error) {
	s.c.log.Warn("call answered with SYSTEM_ERR", "conn", s.seat.ID(), "peer", s.client.String(),
		"program", cl.hdr.Program, "version", cl.hdr.Version, "procedure", cl.hdr.Procedure, "error", err.Error())
}
