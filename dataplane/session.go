package dataplane

import (
	"context"
	"time"

	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/rpcrdma"
)

// openSession opens the session of a service that keeps state for each connection, before
// the peer is answered. The error is a *RefusedError.
func (c *conn) openSession(ctx context.Context) error {
	o, ok := c.l.handler.(perconn.Opener)
	if !ok {
		return nil
	}
	s, err := o.OpenConn(ctx, c.peer)
	if err != nil {
		return &RefusedError{RefusedService, err.Error()}
	}
	if s != nil {
		c.session, c.handler.next = s, s
	}
	return nil
}

func (c *conn) closeSession() {
	if c.session != nil {
		c.session.Close()
	}
}

// served is a connection as its service sees it.
type served struct{ c *conn }

var _ perconn.Conn = served{}

// OpenBackchannel implements perconn.Conn.
func (s served) OpenBackchannel() { s.c.rc.OpenBackchannel() }

// Call implements perconn.Conn.
func (s served) Call(ctx context.Context, call *rpcrdma.Call) error { return s.c.rc.Call(ctx, call) }

// Inline implements perconn.Conn.
func (s served) Inline() (send, receive uint32) {
	info := s.c.link.Info()
	return info.Inline()
}

// Waited implements perconn.Conn. The call itself was counted when the service got it.
func (s served) Waited(d time.Duration) { s.c.handler.waited.Add(uint64(max(d, 0))) }

// lastReplies bounds the time that a peer may take for the replies before End.
const lastReplies = 5 * time.Second

// End implements perconn.Conn. It closes in a goroutine, because that waits for the calls, and one
// of them may be the caller.
func (s served) End(reason string) {
	s.c.why.CompareAndSwap(nil, &reason)
	s.c.rc.Finish()
	go func() {
		select {
		case <-s.c.rc.Done():
		case <-time.After(lastReplies):
			s.c.link.Close()
		}
	}()
}
