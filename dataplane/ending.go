package dataplane

import (
	"context"
	"fmt"
	"time"
)

// Reasons for which rdmad ends a connection, for events and the log.
const (
	reasonDrained  = "drained by an operator"
	reasonClosed   = "closed by an operator"
	reasonDenied   = "the listener's allow and deny keep this address out now"
	reasonShutdown = "rdmad is stopping"
	reasonCut      = "; cut with calls in flight"
)

// reason returns why a connection is down.
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

// CutError means that the time for a drain ended before all calls were finished.
type CutError struct {
	What  string // connection ID; "" means all connections
	Count int    // connections that were cut
	Err   error  // why the time ended
}

func (e *CutError) Error() string {
	what := e.What
	if what == "" {
		what = fmt.Sprintf("%d connections", e.Count)
	}
	return fmt.Sprintf("%s cut with calls in flight: %v", what, e.Err)
}

func (e *CutError) Unwrap() error { return e.Err }

// end closes a connection at once and waits until it is freed. Only the first reason given
// for a connection counts.
func (c *conn) end(reason string) {
	c.why.CompareAndSwap(nil, &reason)
	c.link.Close()
}

// drain finishes the calls in flight and disconnects. When ctx ends first, it closes the
// connection at once and returns ctx's error.
func (c *conn) drain(ctx context.Context, reason string) error {
	c.why.CompareAndSwap(nil, &reason)
	if c.draining.CompareAndSwap(false, true) {
		c.e.d.changed(c)
	}
	// c.cut must be set before the connection ends and its end is reported.
	until, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, func() {
		c.cut.Store(true)
		cut()
	})
	defer stop()
	err := c.link.Drain(lasting{until, ctx})
	c.link.Close()
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// lasting is a context that is ended just after another one, and so has the same deadline.
type lasting struct {
	context.Context
	other context.Context
}

// Deadline implements context.Context.
func (l lasting) Deadline() (time.Time, bool) { return l.other.Deadline() }

// drainAll drains all connections that want selects. When ctx ends, it closes the remaining
// ones. It returns the number of connections and how many of them were cut. None of them is in the
// registry any more.
//
// more waits until further connections may be up, which then are drained, too, and returns false if
// no more come up. nil stands for that.
func (d *Dataplane) drainAll(ctx context.Context, reason string, want func(*conn) bool, more func() bool) (n, cut int) {
	all, failed := make(map[*conn]struct{}), make(chan bool)
	begin := func() {
		for _, c := range d.choose(want) {
			if _, began := all[c]; began {
				continue
			}
			all[c] = struct{}{}
			go func() {
				err := c.drain(ctx, reason)
				<-c.gone
				failed <- err != nil
			}()
		}
	}
	begin()
	for again := more != nil; again; {
		again = more()
		begin()
	}
	for range all {
		if <-failed {
			cut++
		}
	}
	return len(all), cut
}

// choose returns the connections that are up and that want selects.
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

// DrainConnection lets a connection finish its calls in flight and disconnects it. Calls
// that arrive meanwhile are dropped, and the peer repeats them on its next connection. When
// ctx ends first, the connection is closed at once, and the error is a *CutError. The error
// is ErrNotFound when the connection is gone. Connection shows the progress. When
// DrainConnection returns, the connection is no longer listed.
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

// CloseConnection ends a connection at once. The peer gets no replies to calls in flight.
// The error is ErrNotFound when the connection is gone. When CloseConnection returns, the
// connection is no longer listed.
func (d *Dataplane) CloseConnection(id string) error {
	c, err := d.find(id)
	if err != nil {
		return err
	}
	c.end(reasonClosed)
	<-c.gone
	return nil
}
