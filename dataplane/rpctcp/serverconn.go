package rpctcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/slow"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// serverConn is one connection. It has a goroutine that reads calls, its leader, and as many
// workers as there were ever calls at once, up to the limit.
type serverConn struct {
	server *Server
	nc     net.Conn
	peer   netip.AddrPort
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc

	intake  *Intake
	records *oncrpc.RecordReader
	out     *Sender

	place   *connlimit.Place
	calls   *account  // records of calls
	replies *account  // items of replies
	streams allowance // of replies

	slots    chan struct{} // one for each call that may be read now
	mu       sync.Mutex
	idle     []*call      // calls that are not in flight; the last one was used last
	inFlight atomic.Int32 // calls from when they were read until their replies are sent
	crew     Crew[*call]  // the workers, and former leaders
	lead     lead

	torn       bool        // the reader ended within a record
	unanswered atomic.Bool // a reply could not be sent

	began time.Time
	// Counters of the connection. Those of bytes count with the server's when it has ended.
	received, failed, answered, bytesIn, bytesOut atomic.Uint64
	spent                                         atomic.Int64 // ns in the service
	counted                                       *clients.Conn
	slow                                          slow.Calls
}

// newServerConn returns a connection that may take a place.
func newServerConn(s *Server, nc net.Conn) *serverConn {
	c := &serverConn{server: s, nc: nc, peer: tcpaddr.Of(nc.RemoteAddr()), began: time.Now()}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// open makes everything else that a connection needs. It has a place then: those that are refused
// cost little.
func (c *serverConn) open() {
	s, nc := c.server, c.nc
	c.began = time.Now() // the wait for the place does not count
	c.intake = NewIntake(nc, s.cfg.RecordTimeout, &c.bytesIn, s.relief.Relieve)
	c.records = oncrpc.NewRecordReader(c.intake, s.cfg.MaxRecord)
	c.out = NewSender(nc, s.cfg.WriteTimeout, c.cut)
	c.out.Watch(c.owed, s.relief.Relieve)
	c.slow = s.slowCalls(c.peer)
	c.lead.unread = func() bool { return arrived(nc) }
	c.crew = NewCrew[*call]()
	c.slots = make(chan struct{}, s.cfg.MaxCalls)
	for range s.cfg.MaxCalls {
		c.slots <- struct{}{}
	}
	c.join()
}

// serve reads calls until the connection ends. It returns when all of them are answered or
// cannot be, or when another goroutine has taken the lead.
func (c *serverConn) serve() {
	err := c.readCalls()
	if errors.Is(err, errLostLead) {
		c.crew.working.Done()
		return
	}
	s := c.server
	defer s.untrack(func() { delete(s.conns, c) })
	if err != nil && !c.intake.Stopped() {
		c.cut(err) // no answer can reach the peer
	}
	for range s.cfg.MaxCalls { // the last replies are sent
		<-c.slots
	}
	c.crew.Dismiss()
	c.intake.Linger(s.cfg.WriteTimeout)
	c.cancel(io.EOF)
	c.nc.Close()
	c.leave()
	c.log(context.Cause(c.ctx))
}

// log counts the end of a connection and writes the one line about it. A peer may also end
// its connection by a reset, for example a client that closes it with unread data or without
// lingering.
func (c *serverConn) log(reason error) {
	level, how := slog.LevelDebug, "closed"
	switch e, evicted := errors.AsType[*evictedError](reason); {
	case errors.Is(reason, io.EOF) || errors.Is(reason, errShutdown):
	case evicted:
		c.server.stats.evicted[e.why.Reason].Add(1)
		if e.why.Reason != connlimit.Idle { // no warning: idle clients connect again when they have a call
			level = slog.LevelInfo
		}
	case IsReset(reason):
		if c.torn || c.unanswered.Load() {
			c.server.stats.disconnects.Add(1)
		}
		how = "reset"
	default:
		c.server.stats.errors.Add(1)
		level, how = slog.LevelWarn, "cut"
	}
	ctx, to := context.Background(), c.server.cfg.Logger
	if !to.Enabled(ctx, level) { // the attributes of clients that come and go would cost a seventh of the time
		return
	}
	to.Log(ctx, level, "RPC over TCP connection "+how, "peer", c.peer.String(), "reason", reason,
		"calls", c.received.Load(), "replies", c.answered.Load(), "up_for", time.Since(c.began).Round(time.Millisecond))
}

// fail counts a call that is answered with an RPC error.
func (c *serverConn) fail() {
	c.failed.Add(1)
	c.server.stats.errors.Add(1)
}

// counters returns what the connection did.
func (c *serverConn) counters() clients.Counters {
	return clients.Counters{
		Calls: c.received.Load(), Errors: c.failed.Load(), BytesReceived: c.bytesIn.Load(), BytesSent: c.bytesOut.Load(),
		Time: time.Duration(c.spent.Load()),
	}
}

// slowCalls returns what finds and counts the slow calls of a peer.
func (s *Server) slowCalls(peer netip.AddrPort) slow.Calls {
	if s.cfg.SlowCalls == nil {
		return slow.Calls{}
	}
	found := s.cfg.SlowCalls(peer)
	return slow.Calls{Limit: found.Limit, Report: func(c slow.Call) {
		s.stats.slow.Add(1)
		found.Report(c)
	}}
}

// cut ends the connection at once, with its calls in flight.
func (c *serverConn) cut(reason error) {
	c.cancel(reason)
	c.nc.Close()
}

// errLostLead means that another goroutine reads the connection now.
var errLostLead = errors.New("another goroutine reads the connection")

// readCalls reads calls and serves them. It returns nil when the peer has ended the stream,
// and errLostLead when another goroutine has taken the lead.
func (c *serverConn) readCalls() error {
	for {
		select {
		case <-c.slots:
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
		cl := c.take()
		valid, err := c.readCall(cl)
		if err != nil {
			cl.drop()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if valid && !c.dispatch(cl) {
			return errLostLead
		}
	}
}

// take returns a call that is not in flight: the one that was used last, so that a peer with
// one call at a time needs memory for one.
func (c *serverConn) take() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return &call{conn: c}
	}
	cl := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return cl
}

// giveBack takes back a call that has ended.
func (c *serverConn) giveBack(cl *call) {
	c.mu.Lock()
	c.idle = append(c.idle, cl)
	c.mu.Unlock()
	c.slots <- struct{}{}
}

// readCall reads one call. It answers a call that is not valid.
func (c *serverConn) readCall(cl *call) (valid bool, err error) {
	if err := c.intake.Await(); err != nil {
		return false, err
	}
	cl.times = c.slow.BeginNow(cl.times)
	if err := c.readRecord(cl); err != nil {
		c.torn = true
		return false, err
	}
	c.inFlight.Add(1)
	c.server.stats.calls.Add(1)
	c.received.Add(1)
	n, err := oncrpc.DecodeCall(cl.msg, &cl.call)
	cl.times.Is(&cl.call)
	if _, ok := errors.AsType[*oncrpc.DeniedError](err); ok {
		c.fail()
		cl.reply.Stream = oncrpc.AppendError(cl.own[:0], cl.call.XID, err)
		cl.send()
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cl.call.Peer = c.peer
	cl.call.Args = oncrpc.Payload{Stream: cl.msg[n:]}
	return true, cl.reserve()
}

// dispatch serves a call, or gives it to a worker. It returns false if the goroutine lost the
// lead.
func (c *serverConn) dispatch(cl *call) bool {
	if c.mayServe() {
		return c.lend(cl)
	}
	c.crew.Give(cl, cap(c.slots))
	return true
}
