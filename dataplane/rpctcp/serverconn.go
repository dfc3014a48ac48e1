package rpctcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// serverConn is one connection: a goroutine that reads calls, and as many that
// serve them as there were ever calls at once, up to the limit.
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

	slots   chan *call // calls that are not in flight
	jobs    chan *call // for the workers
	workers int        // only for the reader
	working sync.WaitGroup

	torn       bool        // the reader ended within a record
	unanswered atomic.Bool // a reply could not be sent
}

func newServerConn(s *Server, nc net.Conn) *serverConn {
	c := &serverConn{server: s, nc: nc}
	if addr, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.peer = addr.AddrPort()
		c.peer = netip.AddrPortFrom(c.peer.Addr().Unmap(), c.peer.Port())
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.intake = NewIntake(nc, s.cfg.RecordTimeout, &s.stats.bytesIn, s.relief.Relieve)
	c.records = oncrpc.NewRecordReader(c.intake, s.cfg.MaxRecord)
	c.out = NewSender(nc, s.cfg.WriteTimeout, c.cut)
	c.out.Watch(c.owed, s.relief.Relieve)
	c.jobs = make(chan *call)
	c.slots = make(chan *call, s.cfg.MaxCalls)
	for range s.cfg.MaxCalls {
		c.slots <- nil // made when first used
	}
	c.join()
	return c
}

// discard ends a connection that was never served.
func (c *serverConn) discard() {
	c.cut(errShutdown)
	c.leave()
}

// serve reads calls until the connection ends and returns when all of them
// were answered or can't be.
func (c *serverConn) serve() {
	err := c.readCalls()
	if err != nil && !c.intake.Stopped() {
		c.cut(err) // nobody is left to answer to
	}
	close(c.jobs)
	for range c.server.cfg.MaxCalls { // the last replies are sent
		if cl := <-c.slots; cl != nil {
			cl.forget()
		}
	}
	c.working.Wait()
	c.cancel(io.EOF)
	c.nc.Close()
	c.leave()
	c.log(context.Cause(c.ctx))
}

// log writes the one line on a connection that ended for what its peer did. A
// peer may end its connection by a reset as well as in order, as clients do that
// close it with something unread or without lingering.
func (c *serverConn) log(reason error) {
	switch {
	case errors.Is(reason, io.EOF) || errors.Is(reason, errShutdown):
		return
	case c.logEviction(reason):
		return
	case IsReset(reason):
		if c.torn || c.unanswered.Load() {
			c.server.stats.disconnects.Add(1)
		}
		c.server.cfg.Logger.Debug("RPC over TCP connection reset", "peer", c.peer.String(), "reason", reason)
		return
	}
	c.server.stats.errors.Add(1)
	c.server.cfg.Logger.Warn("RPC over TCP connection cut", "peer", c.peer.String(), "reason", reason)
}

// cut ends the connection at once, whatever is in flight.
func (c *serverConn) cut(reason error) {
	c.cancel(reason)
	c.nc.Close()
}

// readCalls reads calls and has them served. It returns nil when the peer has
// said that there are no more.
func (c *serverConn) readCalls() error {
	for {
		var cl *call
		select {
		case cl = <-c.slots:
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
		if cl == nil {
			cl = &call{conn: c}
		}
		if err := c.readCall(cl); err != nil {
			cl.drop()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// readCall reads one call and hands it on.
func (c *serverConn) readCall(cl *call) error {
	if err := c.intake.Await(); err != nil {
		return err
	}
	if err := c.readRecord(cl); err != nil {
		c.torn = true
		return err
	}
	c.place.Touch(time.Now())
	c.server.stats.calls.Add(1)
	n, err := oncrpc.DecodeCall(cl.msg, &cl.call)
	if _, ok := errors.AsType[*oncrpc.DeniedError](err); ok {
		c.server.stats.errors.Add(1)
		cl.reply.Stream = oncrpc.AppendError(cl.reply.Stream[:0], cl.call.XID, err)
		cl.send()
		return nil
	}
	if err != nil {
		return err
	}
	cl.call.Peer = c.peer
	cl.call.Args = oncrpc.Payload{Stream: cl.msg[n:]}
	if err := cl.reserve(); err != nil {
		return err
	}
	c.dispatch(cl)
	return nil
}

// dispatch hands a call to a worker, and starts one when all are busy.
func (c *serverConn) dispatch(cl *call) {
	select {
	case c.jobs <- cl:
		return
	default:
	}
	if c.workers < cap(c.slots) {
		c.workers++
		c.working.Add(1)
		go c.work(cl)
		return
	}
	c.jobs <- cl
}

// work serves cl and then whatever comes.
func (c *serverConn) work(cl *call) {
	defer c.working.Done()
	for ok := true; ok; cl, ok = <-c.jobs {
		cl.serve()
	}
}
