package transport

import (
	"context"
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Calls whose caller does not wait. The goroutine that polls the connection reports their
// outcomes, so that a call wakes no other goroutine. Meanwhile it is away, as when it serves
// a call (lead.go): if the report takes long, for example because a client does not read its
// replies, another goroutine polls and has workers report the other outcomes. Workers also
// report long replies while other calls are in flight, because copying or sending the data
// takes long, and whatever ends while nobody polls.

// bigReply is the size of a reply, in bytes, beyond which a hand-over costs little beside
// moving the data.
const bigReply = 64 << 10

// Done gets the outcome of a call made with Go: what Call would have returned. more means
// that another outcome follows at once. Done may wait for anything except the end of the
// connection.
type Done func(err error, more bool)

// Go makes a call and does not wait for its results. done is called once, perhaps before Go
// returns. Until then the caller must not touch c. To give up its calls, the caller closes
// the connection. Go returns false, and has done nothing, if the call has to wait for
// memory. Use Call then.
func (r *Requester) Go(c *RPC, done Done) bool {
	p, err := r.acquire(done)
	if err != nil {
		done(err, false)
		return true
	}
	c.again = false
	for err = conn.ErrReplan; errors.Is(err, conn.ErrReplan); {
		p.freeMemory()
		if err = r.prepare(oncrpc.NoWait, p, c); errors.Is(err, context.Canceled) {
			r.release(p)
			r.busy.Done()
			return false
		}
		if err == nil {
			err = r.begin(p)
		}
	}
	if err != nil {
		r.report(p, err, false)
	}
	return true
}

// report ends a call made with Go.
func (r *Requester) report(p *pending, err error, more bool) {
	done := p.toDo
	r.release(p)
	done(err, more)
	r.busy.Done()
}

// run implements task, for an outcome that a worker reports.
func (p *pending) run() { p.r.report(p, p.r.outcome(p), false) }

// repeat is a call made with Go whose plan became invalid, as a worker's task.
type repeat pending

func (t *repeat) run() {
	p := (*pending)(t)
	r, c, done := p.r, p.rpc, p.toDo
	p.toDo = nil     // the worker waits for the call
	_ = r.outcome(p) // a call that was sent keeps its XID
	p.freeMemory()
	err := r.attempts(r.ctx, p, c)
	if errors.Is(err, context.Canceled) {
		err = r.whyEnded()
	}
	p.toDo = done
	r.report(p, err, false)
}

// outcomes are the calls made with Go that are over. They belong to the leader.
type outcomes struct {
	calls []*pending
	begun int // of these, outcomes that were reported or are being reported
	// away means that the leader reports them, so that callers must not take the lead;
	// under link.mu.
	away bool
}

// over has the outcome of a call made with Go reported. The caller holds link.mu.
func (r *Requester) over(p *pending) {
	switch {
	case errors.Is(p.out.Err, conn.ErrReplan):
		r.host.workers.run((*repeat)(p)) // it may wait for memory
	case !r.lead.polling:
		r.host.workers.run(p)
	default:
		p.apart = r.awaited > 0 && p.replySize() > bigReply
		r.lead.over.calls = append(r.lead.over.calls, p)
	}
}

// replySize returns the size of the reply, in bytes.
func (p *pending) replySize() int {
	n := p.out.Long + len(p.reply)
	if p.out.Read != nil {
		n += p.out.Read.Size()
	}
	for _, w := range p.out.Written {
		n += w
	}
	return n
}

// conclude reports the outcomes of the calls that are over. It returns false if the
// goroutine lost the lead. The goroutine may then no longer use the link.
func (l *link) conclude() bool {
	o := &l.lead.over
	here := o.calls[:0]
	for _, p := range o.calls {
		if p.apart {
			l.host.workers.run(p)
		} else {
			here = append(here, p)
		}
	}
	clear(o.calls[len(here):])
	o.calls = here
	for o.begun < len(here) {
		p := here[o.begun]
		o.begun++
		more := o.begun < len(here)
		turn := l.lead.Leave()
		l.host.watch.Add((*leader)(l))
		p.r.report(p, p.r.outcome(p), more)
		if !l.lead.Return(turn) {
			return false
		}
	}
	o.clear()
	return true
}

func (o *outcomes) clear() {
	clear(o.calls)
	o.calls, o.begun = o.calls[:0], 0
}

// takeOver has workers report what the last leader had left when it lost the lead.
func (o *outcomes) takeOver(w *workers) {
	for _, p := range o.calls[o.begun:] {
		w.run(p)
	}
	o.clear()
}
