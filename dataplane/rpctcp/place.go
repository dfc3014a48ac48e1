package rpctcp

import (
	"errors"
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

const (
	// enterPause is the time between two attempts of a newcomer to take a place.
	enterPause = 5 * time.Millisecond
	// enterPatience is how long a newcomer waits while no other connection ends.
	enterPatience = 250 * time.Millisecond
	// enterOwn is how many connections an address may have whose newcomers wait: clients that
	// have a right to a place must not wait behind the newcomers of a few that have many.
	enterOwn = 16
)

// enter takes a place for a newcomer. While all places are taken, it waits as long as other
// connections end: of clients that connect at the same moment, such as machines that start
// together and mount, each ends its connection after a call or two. Further ones meanwhile
// wait in the kernel's queue. Once no connection has ended for enterPatience, newcomers are
// refused at once until one ends. So they are if their address has many connections, and over a
// lowered limit, under which no place comes free when a connection ends.
func (s *Server) enter(c *serverConn) (*connlimit.Place, error) {
	table, key := s.cfg.Places, connlimit.Address(c.peer.Addr())
	for since, last := time.Now(), table.Left(); ; {
		left := table.Left()
		place, err := table.Admit(time.Now(), key, connlimit.Ordinary, c)
		full, refused := errors.AsType[*connlimit.RefusedError](err)
		if !refused || full.Reason == connlimit.PerKey || full.Own >= enterOwn || table.Stats().Held > full.Limit || left == s.stuck.Load() {
			return place, err
		}
		if left != last {
			since, last = time.Now(), left
		}
		if time.Since(since) >= enterPatience {
			s.stuck.Store(left)
			return nil, err
		}
		select {
		case <-time.After(enterPause):
		case <-s.over.Done():
			return nil, errShutdown
		}
	}
}

// admit takes a place for a connection. If there is none, it closes the connection
// and returns nil.
func (s *Server) admit(nc net.Conn) *serverConn {
	c := newServerConn(s, nc)
	place, err := s.enter(c)
	if err == nil {
		c.place = place
		c.open()
		return c
	}
	if e, ok := errors.AsType[*connlimit.RefusedError](err); ok {
		s.stats.refused[e.Reason].Add(1)
		s.cfg.Logger.Warn("RPC over TCP connection refused", "peer", c.peer.String(), "reason", err)
	}
	c.cut(errShutdown)
	return nil
}
