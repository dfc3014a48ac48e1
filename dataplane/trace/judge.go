package trace

import (
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/verbs"
)

// maxJudged is the number of connections beyond which a Judge forgets those that have ended.
const maxJudged = 1024

// noMemory is the reason when memory for a referee runs out.
const noMemory = "there is no memory to judge it: trace fewer connections, or raise limits.memory"

// Judge lets a referee judge each connection of a watcher. The watcher's snap
// length must be All. The memory of all referees is bounded. Only one goroutine
// may use a Judge.
type Judge struct {
	conns   map[*Conn]*judged
	events  uint64
	missing uint64
	// late is above the numbers of connections that were forgotten. Connections below it may have
	// had events when they are added.
	late   uint64
	full   int // number of connections with which it looks for ended ones, or 0 for maxJudged
	memory int // of all referees, in bytes
	used   int // by all referees, in bytes
}

// judged is a connection with its referee.
type judged struct {
	referee *referee.Referee    // nil after Verdict.GivenUp was set, or with freed
	freed   bool                // its memory went to others when it had ended; the next event gives it up
	found   []referee.Violation // by the current event
	size    int                 // of the referee in bytes, counted in Judge.used
}

// Verdict is the result for one event. It is valid until the next call of
// Observe.
type Verdict struct {
	Violations []referee.Violation
	// GivenUp is set once, to the reason why the connection is no longer
	// judged.
	GivenUp string
}

// NewJudge makes a Judge. memory is the bound for all referees, in bytes.
func NewJudge(memory int) *Judge { return &Judge{conns: make(map[*Conn]*judged), memory: memory} }

// Observe judges an event. The caller passes the events in order.
func (j *Judge) Observe(e *Event) Verdict {
	j.events++
	if e.Missing != j.missing { // events of any connection were dropped
		j.missing = e.Missing
		for _, c := range j.conns {
			if c.referee != nil {
				c.referee.Gap()
			}
		}
	}
	c := j.conns[e.Conn]
	if c == nil {
		c = j.add(e)
	}
	if c.freed {
		c.freed = false
		return Verdict{GivenUp: noMemory}
	}
	if c.referee == nil {
		return Verdict{}
	}
	c.found = c.found[:0]
	c.observe(e, j.events)
	return Verdict{Violations: c.found, GivenUp: j.weigh(c)}
}

// weigh updates the memory that a referee uses. If the referee has given up, or
// if there is no memory for it, also without that of connections that have ended,
// weigh frees it and returns the reason.
func (j *Judge) weigh(c *judged) (givenUp string) {
	more := c.referee.Size() - c.size
	c.size, j.used = c.size+more, j.used+more
	givenUp = c.referee.GivenUp()
	if givenUp == "" && j.used > j.memory {
		if j.relieve(c); j.used > j.memory {
			givenUp = noMemory
		}
	}
	if givenUp != "" {
		j.used -= c.size
		c.referee, c.size = nil, 0
	}
	return givenUp
}

// relieve frees the memory of connections that have ended, except one.
func (j *Judge) relieve(but *judged) {
	for c, known := range j.conns {
		if c.Ended() && known != but && known.referee != nil {
			j.used -= known.size
			*known = judged{freed: true}
		}
	}
}

// add begins to judge a connection.
func (j *Judge) add(e *Event) *judged {
	if len(j.conns) >= max(j.full, maxJudged) {
		j.forget()
		j.full = 2 * len(j.conns)
	}
	c := &judged{}
	vantage, private := referee.FromServer, referee.Private{Client: e.Conn.PeerPrivate, Server: e.Conn.OwnPrivate}
	if e.Conn.Began {
		vantage, private = referee.FromClient, referee.Private{Client: e.Conn.OwnPrivate, Server: e.Conn.PeerPrivate}
	}
	c.referee = referee.New(referee.Config{Vantage: vantage, Report: func(v referee.Violation) { c.found = append(c.found, v) }})
	c.referee.Connect(private)
	if e.Midway || e.Conn.Number < j.late {
		c.referee.Gap()
	}
	j.conns[e.Conn] = c
	return c
}

// forget removes connections that have ended. Their last events may still come.
func (j *Judge) forget() {
	for c := range j.conns {
		if c.Ended() {
			j.late = max(j.late, c.Number+1)
			j.used -= j.conns[c].size
			delete(j.conns, c)
		}
	}
}

// observe passes an event to the referee. An RDMA Read is seen when its data
// has arrived.
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
