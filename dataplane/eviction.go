package dataplane

import (
	"fmt"
	"sync/atomic"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// evictions counts the connections of a listener that lost their places.
type evictions [connlimit.Reasons]atomic.Uint64

func (e *evictions) snapshot() (out connlimit.Counts) {
	for i := range out {
		out[i] = e[i].Load()
	}
	return out
}

// Busy implements connlimit.Holder.
func (c *conn) Busy() bool { return c.handler.inFlight.Load() > 0 }

// Evict implements connlimit.Holder. It closes the connection in another goroutine, because
// the caller may hold the data plane's lock, and closing takes time.
func (c *conn) Evict(e connlimit.Eviction) {
	c.l.evicted[e.Reason].Add(1)
	over := make(chan struct{})
	if newcomer, ok := e.By.(*conn); ok {
		newcomer.evicting = append(newcomer.evicting, over)
	}
	c.e.d.running.Go(func() {
		defer close(over)
		c.lose(e.Text())
	})
}

// lose ends a connection that lost its place, and waits until it has given its memory back.
// A handshake in progress ends early.
func (c *conn) lose(reason string) {
	d := c.e.d
	d.mu.Lock()
	up := d.conns.byID[c.key.ID] == c
	if !up {
		c.lost = reason // take checks it, if the connection comes up
	}
	d.mu.Unlock()
	if up {
		c.end(reason)
		return
	}
	c.giveUp()
	<-c.settled
}

// settle records that the handshake is over, and that a connection that lost its place
// meanwhile has ended.
func (c *conn) settle() {
	c.giveUp()
	close(c.settled)
}

// lostBefore returns why the connection lost its place when it was not up, or "".
func (c *conn) lostBefore() string {
	c.e.d.mu.Lock()
	defer c.e.d.mu.Unlock()
	return c.lost
}

// refusal adds to the error of a handshake that the connection lost its place.
func (c *conn) refusal(err error) error {
	if why := c.lostBefore(); why != "" {
		return fmt.Errorf("%w: %s", err, why)
	}
	return err
}
