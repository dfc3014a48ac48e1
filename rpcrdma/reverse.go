package rpcrdma

import (
	"context"
	"sync"
)

// Calls from server to client on the same connection (RFC 8167), with
// extensions.backchannel on at both ends.

// OpenBackchannel says that the client is ready to be called. Only the upper
// layer knows: for NFS version 4.1, once a CREATE_SESSION or BIND_CONN_TO_SESSION
// with the back channel has been seen. A client that is not ready may lose the
// connection by a call, and so may one on iWARP that has sent nothing yet: there the
// side that connects speaks first (RFC 5044 §7.1.2). It stays so while the connection lives.
func (c *Conn) OpenBackchannel() { c.resp.OpenBackchannel() }

// Call calls the client and waits for its results. Call and reply travel
// inline: what might not fit fails with ErrCallTooLong. It waits for
// OpenBackchannel, and fails with ErrNoBackchannel when ctx ends before that, or
// at once while extensions.backchannel is off or credits.backchannel is 0.
// ErrDraining and ErrClosed say that it was not sent; else errors are those of
// Client.Call.
func (c *Conn) Call(ctx context.Context, call *Call) error { return c.resp.Call(ctx, call) }

// ends are what is to be done when a connection has ended.
type ends struct {
	mu   sync.Mutex
	over bool
	todo []func()
}

// add has f run at the end; false if that is over.
func (e *ends) add(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.todo = append(e.todo, f)
	}
	return !e.over
}

func (e *ends) run() {
	e.mu.Lock()
	e.over = true
	todo := e.todo
	e.todo = nil
	e.mu.Unlock()
	for _, f := range todo {
		f()
	}
}

// serves says whether the client wants a connection for calls of its server.
// c.mu is held.
func (c *Client) serves() bool {
	return c.cfg.Handler != nil && c.settings.Backchannel() && !c.draining
}

// keep has a client that reconnects do so as soon as the present session ends,
// if it serves. c.mu is held.
func (c *Client) keep() {
	if c.cfg.Handler == nil || c.cfg.Reconnect == nil {
		return
	}
	s := c.cur
	c.running.Go(func() {
		select {
		case <-s.req.Done():
		case <-c.ctx.Done():
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return
		}
		c.loseLocked(s)
		if c.lost && c.cur == s && c.serves() {
			c.dial()
		}
	})
}
