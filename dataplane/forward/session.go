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
	up      chan struct{}  // closed when conn is set
	open    func()         // opens the back channel
	limits  *ulb.Limits    // for the values that the client and the upstream announce to each other

	// Only for the reader.
	head    [8]byte // XID and message type
	pad     [xdr.Unit]byte
	scratch []byte // for skipped data

	mu        sync.Mutex
	conn      perconn.Conn // nil before Up
	opened    bool         // the back channel, perhaps before Up
	err       error        // why it has ended
	pending   map[uint32]*call
	idle      []*call
	callbacks int // calls of the upstream in progress
}

var (
	_ perconn.Handler = (*Session)(nil)
	_ perconn.Early   = (*Session)(nil)
)

func newSession(f *Forwarder, peer netip.AddrPort, nc net.Conn) *Session {
	s := &Session{
		f: f, peer: peer, nc: nc,
		in:      bufio.NewReaderSize(nc, readBuffer),
		done:    make(chan struct{}),
		up:      make(chan struct{}),
		pending: make(map[uint32]*call),
	}
	s.records = oncrpc.NewRecordReader(s.in, int(f.cfg.MaxRecord))
	s.out = rpctcp.NewSender(nc, f.cfg.CallTimeout, func(err error) { s.fail(fmt.Errorf("calls can't be sent: %w", err)) })
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.open = s.openBackchannel
	s.limits = nfs.LimitsOf(min(rpcrdma.MaxMessage, int(f.cfg.MaxRecord)), s.backLimits)
	go s.read()
	return s
}

// Early implements perconn.Early. Calls are sent while their items arrive.
func (s *Session) Early() bool { return true }

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
// the client repeats them on its next connection. Calls whose reply is arriving are left to
// the reader, which fails soon.
func (s *Session) fail(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	c, lost := s.conn, len(s.pending)
	for xid, cl := range s.pending {
		delete(s.pending, xid)
		cl.answeredLocked(err)
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

// tell logs the end of an upstream connection.
func (s *Session) tell(err error, lost int) {
	if (errors.Is(err, io.EOF) || rpctcp.IsReset(err)) && lost == 0 {
		s.f.log.Info("the upstream closed an idle connection", "peer", s.peer.String(), "from", s.nc.LocalAddr().String())
		return
	}
	s.f.log.Warn("upstream connection lost; the client's ends with it and is to reconnect",
		"peer", s.peer.String(), "from", s.nc.LocalAddr().String(), "reason", err, "unanswered", lost)
}

func (s *Session) end(c perconn.Conn, err error) {
	if errors.Is(err, io.EOF) {
		err = errors.New("closed its connection")
	}
	c.End("upstream " + s.f.cfg.Address + ": " + err.Error())
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

// give frees a call for reuse. There are as many as were ever in flight at once.
func (s *Session) give(c *call) {
	c.forget()
	s.mu.Lock()
	s.idle = append(s.idle, c)
	s.mu.Unlock()
}

// register makes the reader expect c's reply.
func (s *Session) register(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case s.pending[c.xid] != nil:
		return errXIDInUse
	}
	c.sending, c.awaiting = true, true
	s.pending[c.xid] = c
	return nil
}

// expect returns the call that waits for the reply with an XID, or nil.
func (s *Session) expect(xid uint32) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.pending[xid]
	delete(s.pending, xid)
	return c
}

// answered records that c no longer waits for a reply.
func (s *Session) answered(c *call, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.answeredLocked(err)
}
