package capture

import (
	"bytes"
	"cmp"
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/referee"
)

// judge is the interface of referee.Referee.
type judge interface {
	Connect(referee.Private)
	Observe(*referee.Event)
	Gap()
	GivenUp() string
	Summary() referee.Summary
}

// connection is an RPC-over-RDMA connection and its referee.
type connection struct {
	r       *reader
	out     *Connection
	referee judge
	sure    bool // it is certainly RPC-over-RDMA
	over    bool // it was given up or has ended
}

// newConnection makes the connection of a link, which is first seen at the current packet.
func newConnection(l *link) *connection {
	r, f := l.r, l.flow
	c := &connection{r: r, out: r.report.add(f.ends[l.client], f.ends[1-l.client])}
	c.out.FirstFrame, c.out.LastFrame, c.out.Began = f.frame, f.frame, f.time.UTC()
	c.referee = r.judge(referee.Config{Vantage: r.vantage(), Report: c.violation})
	r.following++
	return c
}

// connect passes the handshake to the referee.
func (c *connection) connect(asked, answer *handshake, crc bool) {
	c.out.Handshake, c.out.CRC = true, crc
	c.out.Markers = asked.markers || answer.markers
	c.sure = c.r.note != nil || bytes.HasPrefix(asked.private, privateMagic) || bytes.HasPrefix(answer.private, privateMagic)
	c.referee.Connect(referee.Private{Client: asked.private, Server: answer.private})
}

// gap tells the referee that events are missing here.
func (c *connection) gap() {
	if c.over {
		return
	}
	c.out.Gaps++
	c.referee.Gap()
}

// observe passes an event to the referee.
func (c *connection) observe(e *referee.Event) {
	if c.over {
		return
	}
	if !c.sure {
		if c.sure = sends(e); !c.sure {
			c.giveUp("its messages are not those of RPC-over-RDMA")
			return
		}
	}
	c.out.LastFrame = e.Frame
	c.referee.Observe(e)
	if reason := c.referee.GivenUp(); reason != "" {
		c.giveUp(reason)
	}
}

// violation records a violation that the referee or the transport found.
func (c *connection) violation(v referee.Violation) {
	seen := violationOf(&v)
	if expected := c.r.opts.Expected; expected != nil && expected(c.out, &seen) {
		return
	}
	c.r.report.Violations++
	c.out.ViolationsFound++
	if len(c.out.Violations) == maxViolations {
		return
	}
	c.out.Violations = append(c.out.Violations, seen)
}

// sends reports whether an event can be the first one of an RPC-over-RDMA
// connection. Other programs also use iWARP.
func sends(e *referee.Event) bool {
	if e.Kind != referee.Send && e.Kind != referee.SendInvalidate || len(e.Data) < prefixSize {
		return e.Kind == referee.Terminate || e.Kind == referee.Close
	}
	version := binary.BigEndian.Uint32(e.Data[4:])
	return version == 1 || version == 2
}

// privateMagic begins the CM private data of RPC-over-RDMA (RFC 8797 §4).
var privateMagic = []byte{0xf6, 0xab, 0x0e, 0x18}

// giveUp stops following the connection.
func (c *connection) giveUp(reason string) {
	c.out.GivenUp = cmp.Or(c.out.GivenUp, reason)
	c.end()
}

// end records the results of a connection that is over.
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
