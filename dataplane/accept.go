package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/verbs"
)

// retryAccept is the pause after a failed accept. It keeps a failing provider from causing
// a busy loop.
const retryAccept = 100 * time.Millisecond

// accept processes connection requests until the listener stops.
func (l *Listener) accept() {
	for {
		req, err := l.rl.Accept(l.taking)
		if err == nil {
			l.take(req)
			continue
		}
		if l.taking.Err() != nil || errors.Is(err, verbs.ErrClosed) {
			return
		}
		l.d.log.Error("accept failed", "listener", l.name, "error", err)
		select {
		case <-time.After(retryAccept):
		case <-l.taking.Done():
			return
		}
	}
}

// take answers a request. It rejects a peer without access at once, without using a
// goroutine or memory for it. Every other handshake has its own goroutine. A slow or silent
// peer uses one place of the limit of handshakes. It delays others only when all places are
// used.
func (l *Listener) take(req *rpcrdma.Request) {
	c, err := l.admit(req)
	if err != nil {
		l.refuse(req, err)
		return
	}
	l.accepting.Add(1)
	l.running.Add(1)
	l.d.running.Add(1)
	go func() {
		defer c.settle()
		err := l.handshake(req, c)
		l.LeaveHandshake()
		select {
		case l.cameUp <- struct{}{}:
		default:
		}
		l.accepting.Done()
		if err != nil {
			l.refuse(req, c.refusal(err))
			l.over()
			return
		}
		if why := c.lostBefore(); why != "" {
			c.end(why)
		}
	}()
}

// over undoes take. The connection has ended, or never came up.
func (l *Listener) over() {
	l.running.Done()
	l.d.running.Done()
}

// admit takes places for a request among the connections, and among the handshakes.
func (l *Listener) admit(req *rpcrdma.Request) (*conn, error) {
	c, err := l.d.admit(l, req.RemoteAddr())
	if err != nil {
		return nil, err
	}
	if l.EnterHandshake(l.ctx) == nil {
		return c, nil
	}
	c.place.Leave()
	c.settle()
	return nil, &RefusedError{RefusedStopping, ErrShutdown.Error()}
}

// handshake brings a connection up and puts it into the registry. If the error is a
// *RefusedError, the request has no answer yet.
func (l *Listener) handshake(req *rpcrdma.Request, c *conn) error {
	ctx, cancel := context.WithTimeout(c.connecting, l.d.cfg.HandshakeTimeout)
	defer cancel()
	if err := c.openSession(ctx); err != nil {
		c.place.Leave()
		return err
	}
	c.tell(req)
	log, traits := c.logger(), perconn.TraitsOf(c.session)
	for _, over := range c.evicting { // the evicted connections still hold the memory
		select {
		case <-over:
		case <-ctx.Done(): // their calls may hang; Accept then fails
		}
	}
	if _, err := req.Accept(ctx, rpcrdma.ConnConfig{
		Handler: &c.handler,
		Up:      c.begin,
		Down:    c.down,
		Gone: func() {
			c.leave()
			l.over()
		},
		Settings: c.atConnect,
		Queued:   l.calls.queued,
		Early:    traits.Early,
		Later:    traits.Later,
		Slow:     c.slowCalls(c.peer, log),
		Logger:   log,
		Tap:      c.traced(req),
		Moved:    &c.moved,
	}); err != nil {
		c.l.receivers.leave(c.receiver, time.Now())
		c.closeSession()
		c.trace.Close()
		c.place.Leave()
		return err
	}
	return nil
}

// begin puts the connection into the registry before its first call is served. So a client
// that has an answer finds its connection in the list.
func (c *conn) begin(rc *rpcrdma.Conn) {
	c.rc, c.link = rc, rc
	rc.Aim(credit.Initial) // until the division sets it
	c.e.d.register(c)
	if c.session != nil {
		c.session.Up(served{c})
	}
}

// refuse counts and logs a connection that did not come up, and rejects the request if it
// has no answer yet.
func (l *Listener) refuse(req *rpcrdma.Request, err error) {
	why, reason := RefusedHandshake, err.Error()
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		why = refused.Refusal
		defer func() { _ = req.RejectBecause(context.WithoutCancel(l.ctx), refusalWords[why]) }() // the peer may be gone
	case errors.Is(err, rpcrdma.ErrNoMemory):
		why = RefusedMemory
		reason += "; raise limits.memory, or lower credits.max or inline.receive_size"
		l.d.division.ask() // there may be memory when the peer tries again
	case l.ctx.Err() != nil:
		why = RefusedStopping
	}
	l.refused.note(l.d.log, l.name, req.RemoteAddr(), why, reason)
}
