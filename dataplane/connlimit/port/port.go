// Package port limits the connections of a net.Listener with a connlimit.Table.
//
// A connection is idle unless its owner calls Begin and End around the work that it does
// for the client. Evicted connections are closed. A connection without a place is closed
// before anything is read from it. Clients that send much are read slowly.
package port

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// Listener is a listener whose connections have places.
type Listener struct {
	net.Listener
	table *connlimit.Table
	key   func(net.Conn) connlimit.Key
	log   *slog.Logger
	paces paces
}

// Listen returns a listener whose connections, of type *Conn, take places in table by their
// key. If key is nil, the key is the peer's address.
func Listen(l net.Listener, table *connlimit.Table, key func(net.Conn) connlimit.Key, log *slog.Logger) *Listener {
	if key == nil {
		key = func(c net.Conn) connlimit.Key { return Key(c.RemoteAddr()) }
	}
	return &Listener{Listener: l, table: table, key: key, log: log, paces: paces{byKey: make(map[connlimit.Key]*pace)}}
}

// Accept implements net.Listener. It closes a connection without a place and accepts the
// next.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: nc, log: l.log, paces: &l.paces, done: make(chan struct{})}
		if err := c.Enter(l.table, l.key(nc), connlimit.Ordinary); err != nil {
			l.log.Warn("connection refused", "peer", nc.RemoteAddr().String(), "reason", err.Error())
			nc.Close()
			continue
		}
		return c, nil
	}
}

// Key returns the key of a peer's address. All clients of a Unix socket have the same
// key.
func Key(a net.Addr) connlimit.Key {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return connlimit.Name(a.Network())
	}
	return connlimit.Address(at.Addr())
}

// Conn is a connection that has a place. All methods may be called from any goroutine.
type Conn struct {
	net.Conn
	log   *slog.Logger
	work  atomic.Int32
	paces *paces
	done  chan struct{} // closed by Close

	mu     sync.Mutex
	place  *connlimit.Place // nil without one
	pace   *pace            // of its key
	sent   int64            // bytes that the client sent
	next   time.Time        // of a read, if the connection is paced
	closed bool
}

// NetConn returns the underlying connection.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Enter takes a place in t and leaves the connection's previous place. The error is a
// *connlimit.RefusedError; then the connection keeps its previous place.
func (c *Conn) Enter(t *connlimit.Table, key connlimit.Key, class connlimit.Class) error {
	place, err := t.Admit(time.Now(), key, class, c)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place != nil {
		c.place.Leave()
	}
	if c.closed {
		place.Leave()
		return nil
	}
	c.paces.leave(c.pace)
	c.place, c.pace = place, c.paces.join(key)
	return nil
}

// ConnState is an http.Server's: it counts a request as work in flight on its connection, from
// its first byte on. A connection of HTTP/2 always counts; the server's IdleTimeout ends it.
func ConnState(c net.Conn, state http.ConnState) {
	p, ok := c.(*Conn)
	for ; !ok; p, ok = c.(*Conn) {
		c = c.(interface{ NetConn() net.Conn }).NetConn() // of TLS, or of the server
	}
	switch state {
	case http.StateActive:
		p.Begin()
	case http.StateIdle:
		p.End()
	}
}

// Begin marks the start of work for the client. The connection keeps its place until the
// work ends.
func (c *Conn) Begin() { c.work.Add(1) }

// End marks the end of the work of one Begin.
func (c *Conn) End() {
	defer c.work.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.place != nil {
		c.place.Touch(time.Now())
	}
}

// Busy implements connlimit.Holder.
func (c *Conn) Busy() bool { return c.work.Load() > 0 }

// Evict implements connlimit.Holder.
func (c *Conn) Evict(e connlimit.Eviction) {
	c.log.Info("connection closed", "peer", c.RemoteAddr().String(), "reason", e.Text())
	c.Conn.Close() // the reader then closes c
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return err
	}
	c.closed = true
	close(c.done)
	if c.place != nil {
		c.place.Leave()
		c.paces.leave(c.pace)
	}
	return err
}
