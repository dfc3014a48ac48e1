package transport

import (
	"time"

	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
)

// Load is the load of a connection, for the policy that divides memory between
// connections.
type Load struct {
	// Limit is the number of calls that the peer may count on now.
	Limit int
	// Peak is the most calls in progress at once since the last Load.
	Peak int
	// Answered is the number of calls answered so far, with a reply or an
	// error.
	Answered uint64
	// ReceiveBytes is the registered memory of one receive, ReplyBytes that of
	// a call in progress for its reply's header and stream.
	ReceiveBytes, ReplyBytes int64
}

// Load tells the load, and begins to look for the next peak.
func (r *Responder) Load() Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Load{
		Limit:        r.core.Limit(),
		Peak:         r.core.TakePeak(),
		Answered:     r.core.Counters.Replies + r.core.Counters.Errors,
		ReceiveBytes: int64(regmem.Footprint(r.rq.size)),
		ReplyBytes:   int64(regmem.Footprint(2 * int(r.core.SendLimit()))),
	}
}

// Aim says how many credits the adaptive policy is to grant from the next
// reply on; 0 leaves it to the connection's own load. It takes no lock.
func (r *Responder) Aim(n int) { r.aim.Store(int32(n)) }

// queueing measures how long a call waits before its service starts: from the
// poll that found it until a worker has it, and before that for memory to fetch
// its read chunks into. The time that the peer takes to have them read does
// not count.
type queueing struct {
	ready time.Time // when the wait began, were it all at once

	arrived time.Time     // when its chunks could be fetched first
	late    bool          // they had to wait
	memory  time.Duration // for that long
}

// fetching: the call's chunks may be fetched.
func (q *queueing) fetching(now time.Time) { *q = queueing{arrived: now} }

// fetched: their RDMA Reads are posted.
func (q *queueing) fetched() {
	if q.late {
		q.memory = time.Since(q.arrived)
	}
}

// delivered: all of the call is here.
func (q *queueing) delivered(now time.Time, chunks bool) {
	if !chunks {
		*q = queueing{}
	}
	q.ready = now.Add(-q.memory)
}

// started tells a connection's observer that a worker has the call.
func (r *Responder) started(c *call) {
	if r.queued != nil {
		r.queued(time.Since(c.queueing.ready))
	}
}
