package transport

import (
	"time"

	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
)

// Load is the load of a connection, for the policy that divides memory between connections.
type Load struct {
	// Limit is the number of calls that the peer may rely on now.
	Limit int
	// Peak is the most calls in progress at once since the last Load.
	Peak int
	// Answered is the number of calls answered so far, with a reply or an error.
	Answered uint64
	// ReceiveBytes is the registered memory of one receive. ReplyBytes is the registered
	// memory of a call in progress for its reply's header and stream.
	ReceiveBytes, ReplyBytes int64
}

// Load returns the load, and starts measuring the next peak.
func (r *Responder) Load() Load {
	r.mu.look()
	defer r.mu.Unlock()
	return Load{
		Limit:        r.core.Limit(),
		Peak:         r.core.TakePeak(),
		Answered:     r.core.Counters.Replies + r.core.Counters.Errors,
		ReceiveBytes: int64(regmem.Footprint(r.rq.size)),
		ReplyBytes:   int64(regmem.Footprint(2 * int(r.core.SendLimit()))),
	}
}

// Aim sets how many credits the adaptive policy grants from the next reply on. With 0, the
// connection's own load decides. It takes no lock.
func (r *Responder) Aim(n int) { r.aim.Store(int32(n)) }

// queueing measures how long a call waits before its service starts: from the poll that
// found it until a worker has it, and the wait for memory for its read chunks. The time
// that the RDMA Reads take does not count.
type queueing struct {
	ready time.Time // start of the wait, as if the wait were one piece

	late   time.Time     // since when it waits for memory; zero while it does not
	memory time.Duration // how long it waited for memory
}

// lacks records that the call has to wait for memory.
func (q *queueing) lacks() {
	if q.late.IsZero() {
		q.late = time.Now()
	}
}

// reads records that the call's RDMA Reads are posted, or wait for those of others.
func (q *queueing) reads() {
	if !q.late.IsZero() {
		q.memory += time.Since(q.late)
		q.late = time.Time{}
	}
}

// delivered records that the whole call has arrived.
func (q *queueing) delivered(now time.Time, chunks bool) {
	if !chunks {
		*q = queueing{}
	}
	q.ready = now.Add(-q.memory)
}

// started reports to Queued that a worker has the call.
func (r *Responder) started(c *call) {
	if r.queued != nil {
		r.queued(time.Since(c.queueing.ready))
	}
}
