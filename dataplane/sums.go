package dataplane

import (
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// The statistics of all connections are sums. They have what each connection did until it was
// counted last. Before they are read, recount counts the connections that did something since
// then. For each other connection it only looks at the mark.

// sums are over the connections of an endpoint. Under Dataplane.mu.
type sums struct {
	stats    rpcrdma.Stats // with those of connections that have ended
	inFlight int
	versions [3]int // see ListenerStats
	held     int
}

// part is a connection's part of the sums. Under Dataplane.counting.
type part struct {
	stats                       rpcrdma.Stats
	up, inFlight, version, held int // up and held are 0 or 1
}

// recount brings the sums up to date.
func (d *Dataplane) recount() {
	fair.Walk(d.snapshot(), walkStretch, func(c *conn) {
		if !c.moved.IsSet() {
			return
		}
		d.counting.Lock()
		defer d.counting.Unlock()
		if c.part.up == 0 {
			return // it has ended meanwhile
		}
		now := c.current()
		d.mu.Lock()
		defer d.mu.Unlock()
		c.count(&now)
	})
	d.counting.Lock() // until what another goroutine counts is in the sums
	defer d.counting.Unlock()
}

// current returns the part that a connection that is up has by now. The caller holds
// Dataplane.counting.
func (c *conn) current() part {
	c.moved.Clear() // before the rest: what changes from here on sets it again
	info := c.link.Info()
	now := part{stats: c.link.Stats(), up: 1, inFlight: int(c.handler.inFlight.Load()), version: agreed(&info)}
	if c.heldAs(&info) != "" {
		now.held = 1
	}
	return now
}

// count puts now in place of the connection's part of the sums. The caller holds
// Dataplane.counting and Dataplane.mu.
func (c *conn) count(now *part) {
	s, was := &c.e.sums, &c.part
	s.stats.AddSince(&was.stats, &now.stats)
	c.e.d.totals.AddSince(&was.stats, &now.stats)
	s.inFlight += now.inFlight - was.inFlight
	s.versions[was.version] -= was.up
	s.versions[now.version] += now.up
	s.held += now.held - was.held
	c.counted.Count(c.counters(&now.stats))
	c.part = *now
}
