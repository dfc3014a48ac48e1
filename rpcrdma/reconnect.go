package rpcrdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/transport"
)

// Reconnect configures how a client connects again. The zero value is valid. The client
// connects again when a call needs a connection and there is none, or when
// DialConfig.Handler accepts calls of the server. It does so at once if the lost connection
// had carried a reply, and otherwise after a pause that doubles with each failure. The
// actual pause is a random time between half of it and all of it. A call during which too
// many connections are lost fails with ErrTooManyLosses. A call to a server that speaks no
// version that the settings allow fails with ErrNoVersion at once.
type Reconnect struct {
	// MinBackoff is the first pause. 0 means 100 ms.
	MinBackoff time.Duration
	// MaxBackoff is the longest pause. 0 means 60 s, as in Linux.
	MaxBackoff time.Duration
	// Timeout bounds one attempt. 0 means 30 s.
	Timeout time.Duration
}

// Defaults of Reconnect.
const (
	defaultMinBackoff = 100 * time.Millisecond
	defaultMaxBackoff = 60 * time.Second
	defaultTimeout    = 30 * time.Second
)

// maxLosses is how many connections may be lost during one call. Failed attempts to connect
// do not count: the call's context bounds those.
const maxLosses = 128

// losses counts the connections lost during a call.
type losses int

// more counts a connection lost because of err. If it returns an error, the call is not
// repeated.
func (n *losses) more(err error) error {
	if *n++; *n >= maxLosses {
		return fmt.Errorf("%w: %w", ErrTooManyLosses, err)
	}
	return nil
}

// errOtherDevice means that the server is now reached through another device. The memory of
// calls is registered with the old one.
var errOtherDevice = errors.New("the address is now reached through another device")

// reconnecting is the state of a client with Reconnect. Client.mu guards it.
type reconnecting struct {
	lost     bool          // the current session has ended
	closed   bool          // no more calls, no more sessions
	draining bool          // no more calls
	changed  chan struct{} // closed, and replaced, when something here changes
	calls    int           // calls in progress
	waiting  int           // calls that wait for a session
	dialing  bool          // a goroutine makes the next session
	pause    time.Duration // before the next attempt
	failure  error         // of the last attempt
	connects uint64

	// Counters of earlier sessions.
	gone      Stats
	goneSizes Sizes
}

// announce wakes all goroutines that wait for a change.
func (r *reconnecting) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// callThrough makes a call, on several connections if necessary.
func (c *Client) callThrough(ctx context.Context, call *Call) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	do := (*transport.Requester).Call
	var ended error // why a connection ended on which the call may have been sent
	for lost := losses(0); ; {
		s, err := c.await(ctx)
		again := false
		if err == nil {
			err = do(s.req, ctx, call)
			again = c.lose(s, err)
		}
		if !again {
			if errors.Is(err, ErrClosed) {
				err = cmp.Or(ended, err)
			}
			return err
		}
		if end, ok := errors.AsType[*Error](err); ok {
			ended = end
		}
		if err = lost.more(err); err != nil {
			return err
		}
		do = (*transport.Requester).CallAgain
	}
}

func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.draining:
		return ErrDraining
	}
	select {
	case <-c.cur.req.Done(): // the next call gets a new connection, and not this one's error
		c.loseLocked(c.cur)
	default:
	}
	c.calls++
	return nil
}

func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls--; c.calls == 0 {
		c.announce()
	}
}

// lose records that a session has ended, if err says so. It reports whether the call is to
// be repeated.
func (c *Client) lose(s *session, err error) bool {
	var end *Error
	if err == nil || (!errors.As(err, &end) && !errors.Is(err, ErrClosed)) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.loseLocked(s)
	return !errors.Is(err, ErrNoVersion) // the next connection would end in the same way
}

func (c *Client) loseLocked(s *session) {
	if c.cur == s && !c.lost {
		c.lost = true
		c.remember(s.req)
		if st := s.req.Stats(); st.Replies > s.greetings || st.ReverseReplies > 0 {
			c.pause = 0 // it was useful
		}
	}
}

// await returns the current session, or waits for the next.
func (c *Client) await(ctx context.Context) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.lost && !c.closed {
		c.dial()
		c.waiting++
		err := waitUnlocked(ctx, &c.mu, c.changed)
		c.waiting--
		switch {
		case err != nil && c.failure != nil:
			return nil, fmt.Errorf("%w, not connected: %w", err, c.failure)
		case err != nil:
			return nil, err
		}
	}
	if c.closed {
		return nil, ErrClosed
	}
	return c.cur, ctx.Err()
}

// waitUnlocked releases mu until something changes or ctx ends. It returns ctx.Err().
func waitUnlocked(ctx context.Context, mu *sync.Mutex, changed <-chan struct{}) error {
	mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	mu.Lock()
	return ctx.Err()
}

// dial starts to make the next session, unless another goroutine does. c.mu is held.
func (c *Client) dial() {
	if !c.dialing {
		c.dialing = true
		c.running.Go(c.redial)
	}
}

// redial makes the next session. It gives up when no call needs it.
func (c *Client) redial() {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.cur
	for c.rest() {
		s := c.settings
		c.mu.Unlock()
		<-old.req.Done()
		ctx, cancel := context.WithTimeout(c.ctx, orDefault(c.cfg.Reconnect.Timeout, defaultTimeout))
		next, err := c.connect(ctx, s, old.req.LastXID())
		cancel()
		c.mu.Lock()
		if c.failure = err; err == nil {
			c.take(next)
			return
		}
		if c.cfg.Logger != nil && c.ctx.Err() == nil {
			c.cfg.Logger.Warn("reconnect failed", "peer", c.address, "error", err)
		}
	}
	c.dialing = false
}

// rest pauses before an attempt and reports whether it is still needed. c.mu is held, but
// released meanwhile.
func (c *Client) rest() bool {
	pause := c.pause
	c.pause = min(max(2*pause, orDefault(c.cfg.Reconnect.MinBackoff, defaultMinBackoff)),
		orDefault(c.cfg.Reconnect.MaxBackoff, defaultMaxBackoff))
	if pause > 0 {
		c.mu.Unlock()
		t := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-t.C:
		case <-c.ctx.Done():
			t.Stop()
		}
		c.mu.Lock()
	}
	return (c.waiting > 0 || c.serves()) && !c.closed
}

// take makes next the current session. The settings may have changed since it was started.
// c.mu is held.
func (c *Client) take(next *session) {
	stats, sizes := c.cur.req.Stats(), c.cur.req.Sizes()
	c.gone.Add(&stats)
	c.goneSizes.Add(&sizes)
	s := c.settings
	next.req.SetSettings(&s)
	c.cur, c.lost, c.dialing = next, false, false
	c.connects++
	c.announce()
	c.keep()
}

// drainCalls refuses new calls and waits for those in progress.
func (c *Client) drainCalls(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	for c.calls > 0 {
		if err := waitUnlocked(ctx, &c.mu, c.changed); err != nil {
			return err
		}
	}
	return nil
}

// end ends the current session and prevents new ones.
func (c *Client) end() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		c.announce()
		close(c.ended)
	}
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	c.session().req.Close()
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
