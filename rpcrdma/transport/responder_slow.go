package transport

import (
	"time"

	"github.com/rdmad/rdmad/rpcrdma/slow"
)

// follow begins the timeline of a call whose first message arrived at a time. It does nothing
// while slow calls are not measured.
func (c *call) follow(arrived time.Time) { c.times = c.r.slow.Begin(c.times, arrived) }

// followChunks is follow for a call whose chunks are about to be read. A long message was read
// before it was known to be a call.
func (c *call) followChunks() {
	if c.r.early == nil {
		c.follow(c.r.first)
		return
	}
	l := c.r.early.owner.(*long)
	c.follow(l.times.When(slow.Arrived))
	c.times.Note(slow.Reading, l.times.When(slow.Reading))
}

// took ends the timeline of a call, and reports the call if it was slow.
func (r *Responder) took(c *call, end time.Time, lost bool) {
	c.times.Is(&c.call.RPC)
	c.times.Upstream(c.reply.Upstream)
	r.slow.End(c.times, end, lost)
}
