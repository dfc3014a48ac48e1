package rpctcp

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// evictedError is why a connection lost its place.
type evictedError struct{ why connlimit.Eviction }

func (e *evictedError) Error() string { return e.why.Text() }

// Busy implements connlimit.Holder. A connection is busy if it has calls in flight, or one
// that arrives, and the peer makes progress. The first call counts when it has arrived: until
// then the connection is half-open.
func (c *serverConn) Busy() bool {
	calls := c.inFlight.Load() > 0 || c.received.Load() > 0 && c.intake.Begun()
	return calls && c.Behind() < fair.Grace
}

// ended records that a call is no longer in flight.
func (c *serverConn) ended() {
	c.place.Touch(time.Now())
	c.inFlight.Add(-1)
}

// Evict implements connlimit.Holder.
func (c *serverConn) Evict(why connlimit.Eviction) { c.cut(&evictedError{why}) }

// evictionLevel returns the level of the line about a connection that lost its place. It is
// no warning, because idle clients connect again when they have a call.
func evictionLevel(why connlimit.Reason) slog.Level {
	if why == connlimit.Idle {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// admit takes a place for a connection. If there is none, it closes the connection
// and returns nil.
func (s *Server) admit(nc net.Conn) *serverConn {
	c := newServerConn(s, nc)
	place, err := s.cfg.Places.Admit(time.Now(), connlimit.Address(c.peer.Addr()), connlimit.Ordinary, c)
	if err == nil {
		c.place = place
		return c
	}
	if e, ok := errors.AsType[*connlimit.RefusedError](err); ok {
		s.stats.refused[e.Reason].Add(1)
	}
	s.cfg.Logger.Warn("RPC over TCP connection refused", "peer", c.peer.String(), "reason", err)
	c.discard()
	return nil
}
