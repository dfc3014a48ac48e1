package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// readBuffer is how much is read ahead, in bytes. Longer results go directly to their
// memory.
const readBuffer = 16 << 10

// leastLife is the Forwarder.life. A Linux client whose connection ends makes another one at once.
// An upstream that accepts connections and closes them would keep all clients, and rdmad, busy with
// that.
const leastLife = time.Second

// errClosed ends a session whose client is gone.
var errClosed = errors.New("the client's connection has ended")

// Session forwards the calls of one client connection. It has a goroutine that reads from
// the upstream.
type Session struct {
	f       *Forwarder
	peer    netip.AddrPort // the client
	nc      net.Conn
	in      *bufio.Reader
	records *oncrpc.RecordReader
	out     *rpctcp.Sender
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	done    chan struct{}  // closed when the reader has ended
	calling sync.WaitGroup // calls of the upstream
	replied sync.WaitGroup // calls with a reply that are still being sent
	up      chan struct{}  // closed when conn is set
	open    func()         // opens the back channel
	limits  *ulb.Limits    // for the values that the client and the upstream announce to each other
	began   time.Time
	arrives atomic.Int64 // ns for which items of calls had to arrive, in all

	// Only for the reader.
	head    [8]byte // XID and message type
	pad     [xdr.Unit]byte
	scratch []byte // for skipped data
	ahead   ahead

	mu        sync.Mutex
	conn      perconn.Conn // nil before Up
	opened    bool         // the back channel, perhaps before Up
	err       error        // why it has ended
	pending   map[uint32]*call
	arriving  *call       // its reply is being read
	held      []*call     // without a reply; they are answered when the client's connection has ended
	gone      bool        // that has happened
	stop      func() bool // removes the registration of that end
	timer     *time.Timer // of the call that was sent first, or of an earlier one
	armed     bool
	ending    *time.Timer // ends the client's connection
	closed    bool
	idle      []*call
	callbacks int // calls of the upstream in progress
	// callbackXIDs are the XIDs of those that have no answer yet.
	callbackXIDs map[uint32]struct{}
}

var _ perconn.Traited = (*Session)(nil)

func newSession(f *Forwarder, peer netip.AddrPort, nc net.Conn) *Session {
	s := &Session{
		f: f, peer: peer, nc: nc, began: time.Now(),
		done:    make(chan struct{}),
		up:      make(chan struct{}),
		pending: make(map[uint32]*call), callbackXIDs: make(map[uint32]struct{}),
	}
	s.in = bufio.NewReaderSize((*source)(s), readBuffer)
	s.records = oncrpc.NewRecordReader(s.in, int(f.cfg.MaxRecord))
	s.out = rpctcp.NewSender(nc, f.cfg.CallTimeout, s.unsent)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.open = s.openBackchannel
	s.limits = nfs.LimitsOf(min(rpcrdma.MaxMessage, int(f.cfg.MaxRecord)), s.backLimits)
	go s.read()
	return s
}

// Traits implements perconn.Traited. Calls are sent while their items arrive.
func (s *Session) Traits() perconn.Traits { return perconn.Traits{Early: true, Later: true} }

// Up implements perconn.Handler.
func (s *Session) Up(c perconn.Conn) {
	s.mu.Lock()
	s.conn = c
	opened, err := s.opened, s.err
	s.mu.Unlock()
	close(s.up)
	if opened {
		c.OpenBackchannel()
	}
	if err != nil {
		s.end(c, err)
	}
}

// Close implements perconn.Handler.
func (s *Session) Close() {
	s.fail(errClosed)
	<-s.done
	s.calling.Wait()
	if s.stop != nil {
		s.stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, t := range []*time.Timer{s.timer, s.ending} {
		if t != nil {
			t.Stop()
		}
	}
	s.f.stats.connections.Add(-1)
}

// openBackchannel lets the upstream call the client.
func (s *Session) openBackchannel() {
	s.mu.Lock()
	c := s.conn
	s.opened = true
	s.mu.Unlock()
	if c != nil {
		c.OpenBackchannel()
	}
}

// backLimits returns the largest call of the upstream and the largest reply to it, in
// bytes.
func (s *Session) backLimits() (call, reply uint32) {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c == nil {
		return 0, 0
	}
	call, reply = c.Inline()
	return min(call, maxCallback), reply
}

// fail ends the session. Its calls get no answer, and the client's connection ends, so that
// the client repeats them on its next connection. They are held until then. A call whose
// reply is arriving counts as unanswered as well. It is left to the reader, which fails soon.
func (s *Session) fail(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	c, lost := s.conn, len(s.pending)
	if s.arriving != nil {
		lost++
	}
	for xid, cl := range s.pending {
		delete(s.pending, xid)
		cl.awaiting, cl.err = false, err
		s.overLocked(cl)
	}
	s.mu.Unlock()
	s.cancel()
	s.nc.Close()
	if errors.Is(err, errClosed) {
		return
	}
	s.f.stats.lost.Add(1)
	s.tell(err, lost)
	if c != nil {
		s.end(c, err)
	}
}

// unsent is called when no more calls can be sent. If the upstream has ended the connection, its
// last replies may still be there. The reader fails after them.
func (s *Session) unsent(err error) {
	if !rpctcp.IsReset(err) {
		s.fail(fmt.Errorf("calls can't be sent: %w", err))
	}
}

// tell logs the end of an upstream connection.
func (s *Session) tell(err error, lost int) {
	if (errors.Is(err, io.EOF) || rpctcp.IsReset(err)) && lost == 0 {
		s.f.log.Info("the upstream closed an idle connection", "peer", s.peer.String(), "from", s.nc.LocalAddr().String())
		return
	}
	s.f.log.Warn("upstream connection lost; the client's ends with it and is to reconnect",
		"peer", s.peer.String(), "from", s.nc.LocalAddr().String(), "reason", err, "unanswered", lost)
}

// end ends the client's connection, but not before Forwarder.life, nor before the replies that came
// are given to it.
func (s *Session) end(c perconn.Conn, err error) {
	if errors.Is(err, io.EOF) {
		err = errors.New("closed its connection")
	}
	reason := "upstream " + s.f.cfg.Address + ": " + err.Error()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.ending = time.AfterFunc(s.f.life-time.Since(s.began), func() {
			s.replied.Wait()
			c.End(reason)
		})
	}
}

// take returns a call that is not in use.
func (s *Session) take() *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return c
	}
	return newCall(s)
}

// give frees a call for reuse. The session keeps as many calls as were ever in flight at once.
func (s *Session) give(c *call) {
	c.forget()
	s.mu.Lock()
	s.idle = append(s.idle, c)
	s.mu.Unlock()
}

// register makes the reader expect c's reply, unless the session is over.
func (s *Session) register(c *call) error {
	c.began, c.arrives = time.Now(), s.arrives.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		s.stop = context.AfterFunc(c.ctx, s.clientGone)
	}
	if s.pending[c.xid] != nil {
		return errXIDInUse
	}
	c.err, c.sent = s.err, time.Time{}
	if c.sending, c.awaiting = c.err == nil, c.err == nil; c.sending {
		s.pending[c.xid] = c
	}
	return nil
}

// expect returns the call that waits for the reply with an XID, or nil.
func (s *Session) expect(xid uint32) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.pending[xid]
	delete(s.pending, xid)
	s.arriving = c
	return c
}

// ended is called when c no longer waits for a reply: it has come, or err says why not.
func (s *Session) ended(c *call, err error) {
	s.mu.Lock()
	if s.arriving == c {
		s.arriving = nil
	}
	c.awaiting, c.err = false, err
	over := s.overLocked(c)
	if c.sending && err == nil && s.err == nil {
		c.replied = true
		s.replied.Add(1)
	}
	s.mu.Unlock()
	if over {
		c.answer()
	}
}

// overLocked reports whether to answer c now. A call without a reply is held until the
// client's connection has ended.
func (s *Session) overLocked(c *call) bool {
	switch {
	case c.sending || c.awaiting:
		return false
	case c.err != nil && !s.gone:
		s.held = append(s.held, c)
		return false
	}
	return true
}

// clientGone is called when the client's connection has ended. It answers the calls without
// a reply, so that the connection can be freed.
func (s *Session) clientGone() {
	s.fail(errClosed)
	s.mu.Lock()
	held := s.held
	s.held, s.gone = nil, true
	s.mu.Unlock()
	for _, c := range held {
		c.answer()
	}
}

// armLocked starts the timer, unless it runs. It is not stopped when replies come: to start
// and stop it for each call would cost more.
func (s *Session) armLocked(d time.Duration) {
	switch {
	case s.armed || s.err != nil:
		return
	case s.timer == nil:
		s.timer = time.AfterFunc(d, s.look)
	default:
		s.timer.Reset(d)
	}
	s.armed = true
}

// look ends the session if a call was not answered in time.
func (s *Session) look() {
	s.mu.Lock()
	s.armed = false
	first := s.arriving
	for _, c := range s.pending {
		if !c.sent.IsZero() && (first == nil || first.sent.IsZero() || c.sent.Before(first.sent)) {
			first = c
		}
	}
	if s.err != nil || first == nil || first.sent.IsZero() {
		s.mu.Unlock()
		return
	}
	xid, timeout := first.xid, s.f.cfg.CallTimeout
	left := timeout - time.Since(first.sent)
	if left > 0 {
		s.armLocked(left)
	}
	s.mu.Unlock()
	if left <= 0 {
		s.f.stats.timeouts.Add(1)
		s.fail(fmt.Errorf("no answer to call %#x within %v", xid, timeout))
	}
}
