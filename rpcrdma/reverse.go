package rpcrdma

import (
	"context"
	"sync"
)

// Calls from server to client on the same connection (RFC 8167), with
// extensions.backchannel on at both ends.

// OpenBackchannel reports that the client is ready for calls. Only the upper layer knows
// this: for NFS version 4.1, once it has seen a CREATE_SESSION or BIND_CONN_TO_SESSION with
// the back channel. A call to a client that is not ready may end the connection. So may a
// call to a client on iWARP that has sent nothing yet, because there the side that connects
// must send first (RFC 5044 §7.1.2). It holds until the connection ends.
func (c *Conn) OpenBackchannel() { c.resp.OpenBackchannel() }

// Call calls the client and waits for its results. Call and reply go inline. A call that
// might not fit fails with ErrCallTooLong. Call waits for OpenBackchannel. It fails with
// ErrNoBackchannel if ctx ends before that, or at once while extensions.backchannel is off
// or credits.backchannel is 0. ErrDraining and ErrClosed mean that it was not sent. Other
// errors are those of Client.Call.
func (c *Conn) Call(ctx context.Context, call *Call) error { return c.resp.Call(ctx, call) }

// ends holds the functions to run when a connection has ended, by what they are for.
type ends struct {
	mu   sync.Mutex
	over bool
	todo map[any]func()
}

// add registers f to run at the end. It returns false if the connection has ended already.
func (e *ends) add(what any, f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return false
	}
	if e.todo == nil {
		e.todo = make(map[any]func())
	}
	e.todo[what] = f
	return true
}

// remove undoes add.
func (e *ends) remove(what any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.todo, what)
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

// serves reports whether the client needs a connection for calls of its server. c.mu is
// held.
func (c *Client) serves() bool {
	return c.cfg.Handler != nil && c.settings.Backchannel() && !c.draining
}

// keep lets a client with Reconnect connect again as soon as the current session ends, if
// it serves calls. c.mu is held.
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
