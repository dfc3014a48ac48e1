package dataplane

import (
	"context"
	"fmt"
)

// Why we ended a connection, as events and the log have it.
const (
	reasonDrained  = "drained by an operator"
	reasonClosed   = "closed by an operator"
	reasonListener = "the listener was removed"
	reasonDenied   = "the listener's allow and deny keep this address out now"
	reasonShutdown = "rdmad is stopping"
	reasonCut      = "; cut with calls in flight"
)

// reason is why a connection is down.
func (c *conn) reason() string {
	why, err := c.why.Load(), c.link.Err()
	switch {
	case why != nil && c.cut.Load():
		return *why + reasonCut
	case why != nil:
		return *why
	case err != nil:
		return downReason(err)
	}
	return "disconnected"
}

// CutError says that a drain's time was over before all calls were finished.
type CutError struct {
	What  string // connection ID; "" is everything
	Count int    // of connections cut
	Err   error  // why the time was over
}

func (e *CutError) Error() string {
	what := e.What
	if what == "" {
		what = fmt.Sprintf("%d connections", e.Count)
	}
	return fmt.Sprintf("%s cut with calls in flight: %v", what, e.Err)
}

func (e *CutError) Unwrap() error { return e.Err }

// end closes a connection at once and waits until it is freed. The first
// reason given for a connection stays.
func (c *conn) end(reason string) {
	c.why.CompareAndSwap(nil, &reason)
	c.link.Close()
}

// drain finishes the calls in flight and disconnects. When ctx ends first
// the connection is closed at once and the error is ctx's.
func (c *conn) drain(ctx context.Context, reason string) error {
	c.why.CompareAndSwap(nil, &reason)
	if c.draining.CompareAndSwap(false, true) {
		c.l.d.changed(c)
	}
	// The cut is noted before the connection ends by it and is told of.
	until, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, func() {
		c.cut.Store(true)
		cut()
	})
	defer stop()
	err := c.link.Drain(until)
	c.link.Close()
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// drainAll drains the connections that want names, all at once, and closes
// those not done when ctx ends. It returns how many there were, and how many
// were cut.
func (d *Dataplane) drainAll(ctx context.Context, reason string, want func(*conn) bool) (n, cut int) {
	all := d.choose(want)
	failed := make(chan bool, len(all))
	for _, c := range all {
		go func() { failed <- c.drain(ctx, reason) != nil }()
	}
	for range all {
		if <-failed {
			cut++
		}
	}
	return len(all), cut
}

// choose gives the connections that are up and that want names.
func (d *Dataplane) choose(want func(*conn) bool) (out []*conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns.all {
		if want(c) {
			out = append(out, c)
		}
	}
	return out
}

// DrainConnection lets a connection finish its calls in flight and
// disconnects it; calls that arrive meanwhile are dropped, for the peer to
// make again. When ctx ends first it is closed at once, and the error is a
// *CutError. ErrNotFound when it is gone. Connection shows how far it is; when
// this returns the connection is not listed any more.
func (d *Dataplane) DrainConnection(ctx context.Context, id string) error {
	c, err := d.find(id)
	if err != nil {
		return err
	}
	err = c.drain(ctx, reasonDrained)
	<-c.gone
	if err != nil {
		return &CutError{What: "connection " + id, Count: 1, Err: err}
	}
	return nil
}

// CloseConnection ends a connection at once; calls in flight are lost to the
// peer. ErrNotFound when it is gone. When this returns it is not listed any
// more.
func (d *Dataplane) CloseConnection(id string) error {
	c, err := d.find(id)
	if err != nil {
		return err
	}
	c.end(reasonClosed)
	<-c.gone
	return nil
}
