package rpctcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/verbs/lease"
)

// errShutdown ends connections when the server is shut down.
var errShutdown = errors.New("rpctcp: server is shut down")

// Server serves ONC RPC over TCP. All methods may be called from any
// goroutine.
type Server struct {
	cfg     Config
	calls   *pool       // records of calls
	replies *pool       // items of replies
	streams *fair.Pool  // streams of replies
	spares  Spares      // storage of replies
	relief  *Relief     // of calls, replies and streams
	watch   lease.Watch // of leaders that serve calls
	stats   counters
	stuck   atomic.Uint64   // Left of the places when a newcomer waited in vain
	ctx     context.Context // ends, under mu, when Shutdown or Close begins
	cancel  context.CancelFunc
	over    context.Context // ends before the remaining connections are cut
	finish  context.CancelFunc

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*serverConn]struct{}
	bytesIn   uint64 // of connections that have ended
	bytesOut  uint64
	running   sync.WaitGroup // connections and Serve calls
}

// counters are the counters behind Stats.
type counters struct {
	accepted, calls, slow, errors, disconnects atomic.Uint64

	refused, evicted [connlimit.Reasons]atomic.Uint64
}

// Stats are the statistics of a server since it was made.
type Stats struct {
	Connections int              // open now
	Accepted    uint64           // connections
	Refused     connlimit.Counts // connections for which there was no place
	// Evicted counts connections that lost their place to others or by age. They are not
	// Errors.
	Evicted connlimit.Counts
	// Relieved counts connections ended because others waited for their memory.
	Relieved uint64
	Calls    uint64 // calls received
	Slow     uint64 // of these, reported as slow
	Errors   uint64 // calls not answered with success, and connections ended because of their peers
	// Disconnects counts connections that their peers reset before all calls were answered.
	Disconnects uint64
	// BytesReceived and BytesSent count records with their marks.
	BytesReceived, BytesSent uint64
}

// NewServer makes a server. Call Serve to accept connections.
func NewServer(cfg Config) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:       cfg,
		calls:     newPool(cfg.MemoryLimit, cfg.MaxRecord),
		replies:   newPool(cfg.MemoryLimit, cfg.MaxRecord),
		streams:   fair.NewPool(int64(max(cfg.MemoryLimit, keepStream)), keepStream),
		spares:    NewSpares(keepStream),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*serverConn]struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.over, s.finish = context.WithCancel(context.Background())
	s.relief = NewRelief(s.waiting)
	s.stuck.Store(math.MaxUint64)
	return s
}

// SetMemoryLimit changes Config.MemoryLimit. Calls keep memory beyond it until they are
// answered.
func (s *Server) SetMemoryLimit(n int) {
	s.calls.setLimit(n)
	s.replies.setLimit(n)
	s.streams.SetLimit(int64(max(n, keepStream)))
}

// MemoryLimit returns the current limit, in bytes.
func (s *Server) MemoryLimit() int { return int(s.streams.Usage().Limit) }

// Serve accepts connections from l and serves them until the server is shut down, when it
// returns nil, or l fails. It always closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.track(l) {
		return errShutdown
	}
	defer s.untrack(func() { delete(s.listeners, l) })
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			s.accept(nc)
		case s.ctx.Err() != nil:
			return nil
		case !s.retryAccept(err):
			return fmt.Errorf("rpctcp: accept: %w", err)
		}
	}
}

// retryAccept waits a moment after an error that may pass. It returns false if the error is
// permanent.
func (s *Server) retryAccept(err error) bool {
	if !mayPass(err) {
		return false
	}
	s.cfg.Logger.Warn("RPC over TCP can't accept", "error", err)
	select {
	case <-time.After(100 * time.Millisecond):
	case <-s.ctx.Done():
	}
	return true
}

// accept starts a connection, or closes it when there is no place for it. A connection that got its place while the
// server shuts down may make calls for FreshTime, like others that are as young.
func (s *Server) accept(nc net.Conn) {
	c := s.admit(nc)
	if c == nil {
		return
	}
	s.stats.accepted.Add(1)
	c.counted = s.cfg.Clients.Join(c.began, c.peer.Addr(), c.counters)
	s.mu.Lock()
	s.running.Add(1)
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if s.ctx.Err() != nil {
		time.AfterFunc(FreshTime, c.intake.Stop)
	}
	if s.over.Err() != nil {
		c.cut(errShutdown)
	}
	go c.serve()
}

// track counts a call of Serve as running, unless the server is stopping.
func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.running.Add(1)
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) untrack(remove func()) {
	s.mu.Lock()
	remove()
	s.mu.Unlock()
	s.running.Done()
}

// keepBytes counts the bytes of a connection that has ended.
func (s *Server) keepBytes(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytesIn += c.bytesIn.Swap(0)
	s.bytesOut += c.bytesOut.Swap(0)
}

// FreshTime is how long a connection is fresh, and how much longer a fresh one is served when
// the server is shut down.
const FreshTime = time.Second

// Shutdown stops accepting connections and reading calls, lets the calls in flight finish,
// and closes the connections. Fresh ones it reads for another FreshTime: their clients may be
// about to mount, for which they make two calls, and mount(8) fails if the connection ends
// before. If ctx ends first, it ends the remaining connections and returns the reason. When it
// returns, all goroutines of the server have ended, if the handler returns when its context
// ends.
func (s *Server) Shutdown(ctx context.Context) error {
	var fresh []*serverConn
	for _, c := range s.stop() {
		if time.Since(c.began) < FreshTime {
			fresh = append(fresh, c)
			continue
		}
		c.intake.Stop()
	}
	later := time.AfterFunc(FreshTime, func() {
		for _, c := range fresh {
			c.intake.Stop()
		}
	})
	defer later.Stop()
	done := make(chan struct{})
	go func() {
		s.ended()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.finish()
	cut := s.openConns()
	unfinished := 0
	for _, c := range cut {
		if c.intake.Stopped() || c.inFlight.Load() > 0 { // not a fresh one without a call
			unfinished++
		}
		c.cut(errShutdown)
	}
	<-done
	if unfinished == 0 {
		return nil
	}
	return fmt.Errorf("rpctcp: %d connections cut with calls in flight: %w", unfinished, context.Cause(ctx))
}

// Close is Shutdown without waiting for calls in flight.
func (s *Server) Close() error {
	s.finish()
	for _, c := range s.stop() {
		c.cut(errShutdown)
	}
	s.ended()
	return nil
}

// ended waits until all goroutines of the server have ended, and frees its memory.
func (s *Server) ended() {
	s.running.Wait()
	s.watch.Close()
	s.calls.close()
	s.replies.close()
}

// stop closes the listeners and returns the open connections.
func (s *Server) stop() []*serverConn {
	s.mu.Lock()
	s.cancel()
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	return s.openConns()
}

func (s *Server) openConns() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// InFlight returns the number of calls in flight of each open connection, by peer.
func (s *Server) InFlight() map[netip.AddrPort]int {
	calls := make(map[netip.AddrPort]int)
	for _, c := range s.openConns() {
		calls[c.peer] = int(c.inFlight.Load())
	}
	return calls
}

// Stats returns the current statistics.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open, in, out := len(s.conns), s.bytesIn, s.bytesOut
	for c := range s.conns {
		in += c.bytesIn.Load()
		out += c.bytesOut.Load()
	}
	s.mu.Unlock()
	return Stats{
		Connections:   open,
		Accepted:      s.stats.accepted.Load(),
		Refused:       counts(&s.stats.refused),
		Evicted:       counts(&s.stats.evicted),
		Relieved:      s.relief.Cuts(),
		Calls:         s.stats.calls.Load(),
		Slow:          s.stats.slow.Load(),
		Errors:        s.stats.errors.Load(),
		Disconnects:   s.stats.disconnects.Load(),
		BytesReceived: in,
		BytesSent:     out,
	}
}

func counts(from *[connlimit.Reasons]atomic.Uint64) (to connlimit.Counts) {
	for i := range from {
		to[i] = from[i].Load()
	}
	return to
}
