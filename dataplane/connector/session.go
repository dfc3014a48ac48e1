package connector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/slow"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/verbs/peers"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// errEnded is the reason for calls whose session has ended.
var errEnded = errors.New("connector: the connection has ended")

// session is one client. One goroutine reads its calls and makes them. The goroutine that
// polls the connection to the target writes the replies. Workers make the calls that have to
// wait for memory. The session is the dataplane.Link of its connection.
type session struct {
	c      *Connector
	nc     net.Conn
	client netip.AddrPort
	began  time.Time // when the target accepted it
	seat   *dataplane.Seat
	rdma   *rpcrdma.Client
	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	done   chan struct{}

	intake  *rpctcp.Intake
	records *oncrpc.RecordReader
	reading reading // belongs to the reader
	out     *rpctcp.Sender

	slow   slow.Calls
	limits *ulb.Limits    // the limits that client and target announce to each other
	gate   *budget.Budget // limits calls in flight
	budget *budget.Budget // limits bytes of calls
	share  *fair.Share    // share of the memory for the calls of all clients
	lease  atomic.Int64   // time of the last NFSv4 call, in Unix nanoseconds
	called atomic.Bool    // a call has ended
	crew   rpctcp.Crew[*call]
	calls  sync.WaitGroup // in flight

	reset, unanswered atomic.Bool // the client has reset its connection; a call was not answered

	mu        sync.Mutex
	idle      []*call
	xids      map[uint32]struct{} // of calls in flight
	callbacks map[uint32]*callback
	goOn      context.CancelFunc // ends giveWay
	settings  *rpcrdma.Settings
	err       error // why it ended; nil after an orderly end
	ended     bool
}

func newSession(c *Connector, nc net.Conn, seat *dataplane.Seat) *session {
	s := &session{
		c: c, nc: nc, client: tcpaddr.Of(nc.RemoteAddr()), seat: seat, done: make(chan struct{}),
		gate: budget.New(1), budget: budget.New(c.cfg.ClientMemory / 2),
		settings: seat.Settings(), slow: seat.SlowCalls(),
		crew: rpctcp.NewCrew[*call](), xids: make(map[uint32]struct{}), callbacks: make(map[uint32]*callback), goOn: func() {},
	}
	s.limits = nfs.LimitsOf(rpcrdma.MaxMessage, s.backLimits)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.intake = rpctcp.NewIntake(nc, c.cfg.RecordTimeout, &c.stats.bytesIn, c.relief.Relieve)
	s.records = oncrpc.NewRecordReader(s.intake, maxRefused)
	s.out = rpctcp.NewSender(nc, c.cfg.WriteTimeout, func(err error) {
		s.clientGone(fmt.Errorf("client does not take its replies: %w", err))
	})
	s.out.Watch(func() int { return int(s.share.Held()) }, c.relief.Relieve)
	s.share = c.memory.Join(peers.Of(s.client.Addr()), 1)
	return s
}

// connect makes the connection to the target.
func (s *session) connect(ctx context.Context, target string) (err error) {
	settings := *s.seat.Settings()
	s.rdma, err = rpcrdma.Dial(ctx, s.c.cfg.Provider, target, rpcrdma.DialConfig{
		Settings: &settings, Logger: s.c.log, MemoryLimit: s.c.cfg.ClientMemory, Reserve: s.c.reserve, Handler: s, Tap: s.seat.Tap(),
		Moved: s.seat.Moved(), Versions: &s.c.versions,
	})
	if err == nil {
		s.began = time.Now()
		s.SetSettings(&settings)
	}
	return err
}

// run passes calls on until either side ends. When it returns, nothing of the session is
// left.
func (s *session) run() {
	defer close(s.done)
	s.c.relief.Join(s)
	defer s.c.relief.Leave(s)
	stop := make(chan struct{})
	var watching sync.WaitGroup
	var why error // of the target
	watching.Go(func() {
		select {
		case <-s.rdma.Done(): // the client still gets the replies that have come
			why = targetGone(s.rdma.Err())
			s.intake.Stop()
			s.cancel(errEnded)
		case <-s.ctx.Done():
			_ = s.rdma.Drain(s.ctx) // the calls in flight fail
		case <-stop:
		}
	})
	if err := s.readCalls(); err != nil && !s.intake.Stopped() {
		s.clientGone(err) // the client can't be answered any more
	}
	// The last replies are written. A client that has gone looks like a client that only
	// sends no more calls.
	patience := time.AfterFunc(s.c.cfg.RecordTimeout, func() {
		if !s.intake.Stopped() { // otherwise the context of the drain, or WriteTimeout, limits the time
			s.end(nil)
		}
	})
	s.calls.Wait()
	patience.Stop()
	s.crew.Dismiss()
	close(stop)
	watching.Wait()
	s.free() // a call of the target could not be written any more, and would end the session
	s.intake.Linger(s.c.cfg.WriteTimeout)
	s.end(why)
	if s.reset.Load() && s.unanswered.Load() {
		s.c.stats.disconnects.Add(1)
	}
}

// free releases the share of a session without calls, and closes its connection to the target if
// there is one.
func (s *session) free() {
	s.share.Leave()
	if s.rdma == nil {
		return
	}
	if err := s.rdma.Close(); err != nil {
		s.c.log.Error("registered memory was not freed", "conn", s.seat.ID(), "peer", s.client.String(), "error", err)
	}
}

// Memory implements dataplane.ConnectorLink.
func (s *session) Memory() rpcrdma.MemoryStats { return s.rdma.Memory() }

// targetGone returns the reason for a session whose target has ended the connection.
func targetGone(err error) error {
	if err == nil {
		return errTargetGone
	}
	return err
}

var errTargetGone = errors.New("the target has disconnected")

// clientGone ends the session because the client's connection has ended. A reset by the
// client counts as an orderly end.
func (s *session) clientGone(why error) {
	if rpctcp.IsReset(why) {
		s.reset.Store(true)
		why = nil
	}
	s.end(why)
}

// end ends the session at once. Only the first reason counts.
func (s *session) end(why error) {
	s.mu.Lock()
	first := !s.ended
	if first {
		s.ended, s.err = true, why
	}
	s.mu.Unlock()
	if first {
		s.cancel(errEnded)
		s.nc.Close()
	}
}

// readCalls reads calls and makes them. It returns nil when the client has closed
// its sending side.
func (s *session) readCalls() error {
	for {
		if err := s.intake.Await(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		s.giveWay()
		cl := s.take()
		cl.times = s.slow.BeginNow(cl.times)
		if handed, err := s.readCall(cl); err != nil {
			cl.end()
			s.unanswered.Store(true)
			return oncrpc.Unexpected(err)
		} else if !handed {
			cl.end()
		}
	}
}

// giveWay waits until the calls in flight have left the connector's reserve, if other clients want it. The client is not
// behind meanwhile. But while the target waits for an answer of the client, giveWay does not wait: a call in flight may
// end only after that answer.
func (s *session) giveWay() {
	if !s.c.reserve.Wanted() {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.mu.Lock()
	s.goOn = cancel
	if len(s.callbacks) > 0 {
		cancel()
	}
	s.mu.Unlock()
	s.rdma.GiveWay(ctx, s.c.cfg.RecordTimeout)
}

// take returns a call that is not in flight.
func (s *session) take() *call {
	s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		cl := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return cl
	}
	cl := &call{s: s}
	cl.over = cl.ended
	cl.plan.Limits = s.limits
	return cl
}

// begin records the call's XID. It returns false when a call in flight has the same XID. The
// client then gets one answer for both, as from a server's duplicate request cache.
func (s *session) begin(cl *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.xids[cl.hdr.XID]; there {
		return false
	}
	s.xids[cl.hdr.XID] = struct{}{}
	cl.begun = true
	return true
}

// forget allows the client to reuse the call's XID.
func (s *session) forget(cl *call) {
	if !cl.begun {
		return
	}
	cl.begun = false
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.xids, cl.hdr.XID)
}

// recycle takes back a finished call.
func (s *session) recycle(cl *call) {
	if cl.gated {
		cl.gated = false
		s.called.Store(true)
		s.seat.Ended()
		s.gate.Release(1)
	}
	s.mu.Lock()
	s.idle = append(s.idle, cl)
	s.mu.Unlock()
	s.calls.Done()
}
