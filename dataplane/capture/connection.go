package capture

import (
	"cmp"
	"net/netip"

	"github.com/rdmad/rdmad/rpcrdma/referee"
)

// judge is a referee.Referee.
type judge interface {
	Connect(referee.Private)
	Observe(*referee.Event)
	Gap()
	GivenUp() string
	Summary() referee.Summary
}

// connection is an RPC-over-RDMA connection that a referee judges.
type connection struct {
	r       *reader
	out     *Connection
	referee judge
	over    bool // given up or ended
}

func newConnection(r *reader, client, server netip.AddrPort, transport string) *connection {
	c := &connection{r: r, out: r.report.add(client, server, transport)}
	c.referee = r.judge(referee.Config{Vantage: r.vantage(), Report: c.violation})
	r.following++
	return c
}

// begins notes where in the capture the connection is first seen.
func (c *connection) begins(f *flow) {
	c.out.FirstFrame, c.out.LastFrame, c.out.Began = f.frame, f.frame, f.time.UTC()
}

// connect gives the handshake to the referee.
func (c *connection) connect(asked, answer *handshake, crc bool) {
	c.out.Handshake, c.out.CRC = true, crc
	c.out.Markers = asked.markers || answer.markers
	c.referee.Connect(referee.Private{Client: asked.private, Server: answer.private})
}

// gap says that events are missing here.
func (c *connection) gap() {
	if c.over {
		return
	}
	c.out.Gaps++
	c.referee.Gap()
}

// observe judges and counts an event.
func (c *connection) observe(e *referee.Event) {
	if c.over {
		return
	}
	c.out.LastFrame = e.Frame
	c.referee.Observe(e)
	if reason := c.referee.GivenUp(); reason != "" {
		c.giveUp(reason)
	}
}

// violation reports what the referee, or the transport, found.
func (c *connection) violation(v referee.Violation) {
	c.r.report.Violations++
	c.out.ViolationsFound++
	if len(c.out.Violations) == maxViolations {
		return
	}
	c.out.Violations = append(c.out.Violations, violationOf(&v))
}

// giveUp stops following the connection.
func (c *connection) giveUp(reason string) {
	c.out.GivenUp = cmp.Or(c.out.GivenUp, reason)
	c.end()
}

// end takes the result of a connection that is over.
func (c *connection) end() {
	if c.over {
		return
	}
	c.over = true
	c.r.following--
	s := c.referee.Summary()
	c.out.summarize(&s)
	c.referee = nil
}
