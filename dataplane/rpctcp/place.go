package rpctcp

import (
	"errors"
	"net"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// evictedError says why a connection lost its place.
type evictedError struct{ why connlimit.Eviction }

func (e *evictedError) Error() string { return e.why.Text() }

// Busy implements connlimit.Holder. A connection is busy when it has calls in
// flight and the peer reads its replies. One slot is never free: the reader holds
// it for the next call.
func (c *serverConn) Busy() bool {
	return len(c.slots) < cap(c.slots)-1 && c.Behind() < fair.Grace
}

// Evict implements connlimit.Holder.
func (c *serverConn) Evict(why connlimit.Eviction) { c.cut(&evictedError{why}) }

// logEviction counts and logs the end of a connection that lost its place. It
// returns false if the connection ended for another reason. The line is no warning:
// idle clients connect again when they have a call.
func (c *serverConn) logEviction(reason error) bool {
	e, ok := errors.AsType[*evictedError](reason)
	if !ok {
		return false
	}
	s := c.server
	s.stats.evicted[e.why.Reason].Add(1)
	log := s.cfg.Logger.Info
	if e.why.Reason == connlimit.Idle {
		log = s.cfg.Logger.Debug
	}
	log("RPC over TCP connection closed", "peer", c.peer.String(), "reason", reason)
	return true
}

// admit takes a place for a connection. If there is none, it closes the connection
// and returns nil.
func (s *Server) admit(nc net.Conn) *serverConn {
	c := newServerConn(s, nc)
	place, err := s.places.Admit(time.Now(), connlimit.Address(c.peer.Addr()), connlimit.Ordinary, c)
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

// SetLimits changes the limits of a server without a Parent; 0 means the default.
func (s *Server) SetLimits(l connlimit.Limits) { s.places.SetLimits(DefaultLimits(l)) }

// Limits are those in force.
func (s *Server) Limits() connlimit.Limits { return s.places.Limits() }
