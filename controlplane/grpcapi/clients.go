package grpcapi

import (
	"net"
	"sync"
)

// clients is a listener with so many connections at a time; more wait to be
// accepted. Unlike netutil's its connections show what they wrap, which is how
// clients on a Unix socket are identified.
type clients struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	once  sync.Once
}

func limitClients(l net.Listener, connections int) *clients {
	return &clients{Listener: l, slots: make(chan struct{}, connections), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *clients) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &counted{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements net.Listener.
func (l *clients) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// counted gives its slot back when it is closed.
type counted struct {
	net.Conn
	release func()
}

// NetConn is the connection itself.
func (c *counted) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}
