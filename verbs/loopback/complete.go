package loopback

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// lateWC is a completion that Faults.CompletionDelay delays.
type lateWC struct {
	cq  *driver.CQ
	wc  verbs.WC
	due time.Time
}

// complete adds a completion to a CQ, now or after the completion delay.
func (q *queuePair) complete(c *driver.CQ, wc verbs.WC) {
	wc.QPNum = q.Num()
	delay := q.end.link.fabric.faults.Load().CompletionDelay
	late := &q.end.late
	if delay <= 0 && late.len() == 0 {
		c.Push(&wc)
		return
	}
	*late.push() = lateWC{cq: c, wc: wc, due: time.Now().Add(delay)}
}

// releaseLate delivers the completions whose time has come.
func (e *end) releaseLate() bool {
	did := false
	for e.late.len() > 0 && time.Until(e.late.first().due) <= 0 {
		l := e.late.first()
		l.cq.Push(&l.wc)
		e.late.pop()
		did = true
	}
	return did
}

// retire completes, in order, the finished requests at the head of the send queue. The slot
// of an unsignaled one stays in use until a later request completes.
func (q *queuePair) retire() {
	for q.sq.head < q.started && q.sq.first().done {
		w := q.sq.first()
		if !w.signaled {
			q.held++
		} else {
			wc := verbs.WC{ID: w.id, Op: w.op.Completed()}
			if w.op == verbs.OpRDMARead {
				wc.ByteLen = w.n
			}
			q.held = 0
			q.complete(q.sendCQ, wc)
		}
		q.sq.pop()
	}
}

// flush completes everything outstanding: finished requests at the head of the queue
// normally, a failed request with its status, all others as flushed.
func (q *queuePair) flush() {
	q.retire()
	for q.sq.len() > 0 {
		w := q.sq.first()
		status := w.status
		if status == verbs.WCSuccess {
			status = verbs.WCWRFlushErr
		}
		if !w.done {
			w.bind.Abandon()
		}
		q.complete(q.sendCQ, verbs.WC{ID: w.id, Status: status})
		q.sq.pop()
	}
	q.started, q.held, q.reads = q.sq.head, 0, 0
	for q.rq.len() > 0 {
		q.complete(q.recvCQ, verbs.WC{ID: q.rq.first().id, Status: verbs.WCWRFlushErr})
		q.rq.pop()
	}
}
