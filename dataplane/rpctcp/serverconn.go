package rpctcp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// readBuffer is how much is read ahead, in bytes. Longer records go straight
// into their own buffer.
const readBuffer = 16 << 10

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
	out     Sender

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
	in := bufio.NewReaderSize(countingReader{nc, &s.stats.bytesIn}, readBuffer)
	c.intake = NewIntake(nc, in, s.cfg.IdleTimeout, s.cfg.RecordTimeout)
	c.records = oncrpc.NewRecordReader(in, s.cfg.MaxRecord)
	c.out = Sender{nc: nc, timeout: s.cfg.WriteTimeout, failed: c.cut}
	c.jobs = make(chan *call)
	c.slots = make(chan *call, s.cfg.MaxCalls)
	for range s.cfg.MaxCalls {
		c.slots <- nil // made when first used
	}
	return c
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
	c.log(context.Cause(c.ctx))
}

// log writes the one line on a connection that ended for what its peer did. A
// peer may end its connection by a reset as well as in order, as clients do that
// close it with something unread or without lingering.
func (c *serverConn) log(reason error) {
	switch {
	case errors.Is(reason, io.EOF) || errors.Is(reason, errShutdown):
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
	if err := c.intake.Await(c.busy); err != nil {
		return err
	}
	if err := c.readRecord(cl); err != nil {
		c.torn = true
		return err
	}
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

// busy says whether calls are in flight; the reader has the slot of the next.
func (c *serverConn) busy() bool { return len(c.slots) < cap(c.slots)-1 }

// readRecord reads a record that has begun into a buffer of the right size.
func (c *serverConn) readRecord(cl *call) error {
	if err := c.intake.Expect(oncrpc.RecordMarkSize); err != nil {
		return err
	}
	size, err := c.records.Next()
	if err != nil {
		return err
	}
	if !c.records.Whole() {
		size = c.server.cfg.MaxRecord
	}
	if cl.record, err = c.server.calls.get(c.ctx, size); err != nil {
		return err
	}
	if err = c.intake.Expect(size); err != nil {
		return err
	}
	cl.msg, err = c.records.Read(cl.record.data[:0])
	return err
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

// countingReader counts what is read.
type countingReader struct {
	r     io.Reader
	count *atomic.Uint64
}

func (r countingReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.count.Add(uint64(n))
	return n, err
}
