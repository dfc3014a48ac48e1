package trace

import (
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/verbs"
)

// maxJudged is the number of connections that a Judge follows at a time.
const maxJudged = 1024

// Judge lets a referee judge each connection of a watcher whose snap length is
// All. Not for several goroutines.
type Judge struct {
	conns   map[*Conn]*judged
	events  uint64
	missing uint64
}

// judged is a connection with its referee.
type judged struct {
	referee *referee.Referee
	found   []referee.Violation // by the event being judged
	given   bool                // Verdict had GivenUp
}

// Verdict is what an event shows. It is valid until the next one.
type Verdict struct {
	Violations []referee.Violation
	// GivenUp says why the connection is not judged any more, once.
	GivenUp string
}

// NewJudge makes a judge.
func NewJudge() *Judge { return &Judge{conns: make(map[*Conn]*judged)} }

// Observe judges events in their order.
func (j *Judge) Observe(e *Event) Verdict {
	j.events++
	if e.Missing != j.missing { // of any connection
		j.missing = e.Missing
		for _, c := range j.conns {
			c.referee.Gap()
		}
	}
	c := j.conns[e.Conn]
	if c == nil {
		if c = j.add(e); c == nil {
			return Verdict{}
		}
	}
	c.found = c.found[:0]
	c.observe(e, j.events)
	v := Verdict{Violations: c.found}
	if reason := c.referee.GivenUp(); reason != "" && !c.given {
		c.given, v.GivenUp = true, reason
	}
	return v
}

// add begins to judge a connection, nil when there are too many.
func (j *Judge) add(e *Event) *judged {
	if len(j.conns) == maxJudged {
		j.forget()
	}
	if len(j.conns) == maxJudged {
		return nil
	}
	c := &judged{}
	vantage, private := referee.FromServer, referee.Private{Client: e.Conn.PeerPrivate, Server: e.Conn.OwnPrivate}
	if e.Conn.Began {
		vantage, private = referee.FromClient, referee.Private{Client: e.Conn.OwnPrivate, Server: e.Conn.PeerPrivate}
	}
	c.referee = referee.New(referee.Config{Vantage: vantage, Report: func(v referee.Violation) { c.found = append(c.found, v) }})
	c.referee.Connect(private)
	if e.Midway {
		c.referee.Gap()
	}
	j.conns[e.Conn] = c
	return c
}

// forget makes room: connections that have ended do nothing any more.
func (j *Judge) forget() {
	for c := range j.conns {
		if c.Ended() {
			delete(j.conns, c)
		}
	}
}

// observe gives an event to the referee. An RDMA Read is seen when its data is
// there.
func (c *judged) observe(e *Event, number uint64) {
	from := referee.Server
	if e.Conn.Began != (e.In && e.send()) {
		from = referee.Client
	}
	out := referee.Event{From: from, Frame: number, Length: e.Length, Data: e.Data}
	switch e.Op {
	case verbs.OpSend:
		out.Kind = referee.Send
	case verbs.OpSendInvalidate:
		out.Kind, out.STag = referee.SendInvalidate, e.RKey
	case verbs.OpRDMAWrite:
		out.Kind, out.STag, out.Offset = referee.Write, e.RKey, e.Addr
	case verbs.OpRDMARead:
		request := referee.Event{Kind: referee.Read, From: from, Frame: number, STag: e.RKey, Offset: e.Addr, Length: e.Length}
		c.referee.Observe(&request)
		out.Kind = referee.ReadDone
	default:
		return
	}
	c.referee.Observe(&out)
}
