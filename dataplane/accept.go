package dataplane

import (
	"context"
	"errors"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/verbs"
)

// retryAccept is the pause after a failed accept, so that a provider that
// keeps failing doesn't spin.
const retryAccept = 100 * time.Millisecond

// accept takes connection requests until the listener stops.
func (l *listener) accept() {
	for {
		req, err := l.rl.Accept(l.ctx)
		if err == nil {
			l.take(req)
			continue
		}
		if l.ctx.Err() != nil || errors.Is(err, verbs.ErrClosed) {
			return
		}
		l.d.log.Error("accept failed", "listener", l.cfg.Name, "error", err)
		if !pause(l.ctx, retryAccept) {
			return
		}
	}
}

// take answers a request. take rejects a peer without access at once: no
// goroutine and no memory of ours is spent on them. For the others each
// handshake has its own goroutine; a slow or silent peer holds one place at the turnstiles and delays nobody until all places
// are held.
func (l *listener) take(req *rpcrdma.Request) {
	c, err := l.admit(req)
	if err != nil {
		l.refuse(req, err)
		_ = req.Reject(l.ctx) // the peer may be gone
		return
	}
	l.accepting.Add(1)
	l.running.Add(1)
	l.d.running.Add(1)
	go func() {
		err := l.handshake(req, c)
		l.d.handshakes.leave()
		l.handshakes.leave()
		l.accepting.Done()
		if err != nil {
			l.refuse(req, err)
			if _, ok := errors.AsType[*RefusedError](err); ok { // not answered yet
				_ = req.Reject(l.ctx) // the peer may be gone
			}
			l.over()
			return
		}
		if c.lost != "" {
			c.end(c.lost)
		}
	}()
}

// over undoes take. The connection has ended, or never came up.
func (l *listener) over() {
	l.running.Done()
	l.d.running.Done()
}

// admit finds a request's place among the connections, and at the turnstiles.
func (l *listener) admit(req *rpcrdma.Request) (*conn, error) {
	c, err := l.d.admit(l, req.RemoteAddr())
	if err != nil {
		return nil, err
	}
	if l.handshakes.enter(l.ctx) {
		if l.d.handshakes.enter(l.ctx) {
			return c, nil
		}
		l.handshakes.leave()
	}
	c.place.Leave()
	return nil, &RefusedError{RefusedStopping, ErrShutdown.Error()}
}

// handshake brings a connection up and puts it into the registry. With a
// *RefusedError the request has no answer yet.
func (l *listener) handshake(req *rpcrdma.Request, c *conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, l.d.cfg.HandshakeTimeout)
	defer cancel()
	if err := c.openSession(ctx); err != nil {
		c.place.Leave()
		return err
	}
	c.tell(req)
	c.evicting.Wait() // they have the memory
	if _, err := req.Accept(ctx, rpcrdma.ConnConfig{
		Handler: &c.handler,
		Up:      c.begin,
		Down:    c.down,
		Gone: func() {
			c.leave()
			l.over()
		},
		Settings: c.atConnect,
		Queued:   l.handler.queued,
		Logger:   l.d.log.With("conn", c.key.ID, "listener", l.cfg.Name),
		Tap:      c.traced(req),
	}); err != nil {
		c.l.receivers.leave(c.receiver, time.Now())
		c.closeSession()
		c.trace.Close()
		c.place.Leave()
		return err
	}
	return nil
}

// begin is where a connection is listed: before its first call is served, so
// that who has an answer finds the connection among those that are up.
func (c *conn) begin(rc *rpcrdma.Conn) {
	c.rc, c.link = rc, rc
	rc.Aim(credit.Initial) // until the division looks at it
	c.l.d.register(c)
	if c.session != nil {
		c.session.Up(served{c})
	}
}

// refuse counts and logs a connection that didn't come up.
func (l *listener) refuse(req *rpcrdma.Request, err error) {
	why, reason := RefusedHandshake, err.Error()
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		why = refused.Refusal
	case errors.Is(err, rpcrdma.ErrNoMemory):
		why = RefusedMemory
		reason += "; raise limits.memory, or lower credits.max or inline.receive_size"
		l.d.division.wake() // there may be some when the peer comes again
	case l.ctx.Err() != nil:
		why = RefusedStopping
	}
	l.refused.note(l.d.log, l.cfg.Name, req.RemoteAddr(), why, reason)
}

// pause waits for t and says whether ctx is still alive.
func pause(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
