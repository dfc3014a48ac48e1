package dataplane

import (
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
	newcomer, _ := e.By.(*conn)
	if newcomer != nil {
		newcomer.evicting.Add(1)
	}
	c.e.d.running.Go(func() {
		c.lose(e.Text())
		if newcomer != nil {
			newcomer.evicting.Done()
		}
	})
}

// lose ends a connection that lost its place, once the connection is up.
func (c *conn) lose(reason string) {
	d := c.e.d
	d.mu.Lock()
	up := d.conns.byID[c.key.ID] == c
	if !up {
		c.lost = reason // register checks it, if the connection comes up
	}
	d.mu.Unlock()
	if up {
		c.end(reason)
	}
}
