package transport

import (
	"context"

	"github.com/rdmad/rdmad/verbs/lease"
)

// Leader and followers among callers. While no other goroutine polls, a caller that waits
// for its reply polls the connection itself. On the way it completes the calls of others.
// So a single call wakes no other goroutine. When the caller's own reply has arrived and
// other calls wait, a goroutine continues to poll for as long as calls wait. If none wait,
// the connection rests until the next call, or until the next completion starts a goroutine.
//
// To request that start costs a system call or two. So while calls come often, the caller
// only leaves the lead, and the host's watch begins the rest when no call has followed. But
// if the peer makes calls too, the rest begins at once, so that these calls don't wait.

// takeLead makes the caller of p, whose call has begun, the leader if there is none. If that
// caller does not wait, because the call was made with Go, a goroutine polls. The caller
// holds link.mu.
func (r *Requester) takeLead(p *pending, goes bool) {
	r.lead.goes = goes
	// A requester of a server leaves polling to its responder.
	over := len(p.done) > 0 // for example, it has to be planned again
	if over || r.dead || r.reverse || r.lead.over.away || (!r.lead.Take() && !r.idling.rouse()) {
		return
	}
	r.lead.rests = false
	if goes {
		go r.poll()
		return
	}
	p.leads, r.lead.caller = true, true
}

// await waits until the call is over.
func (r *Requester) await(ctx context.Context, p *pending) {
	if p.leads {
		for r.pollFor(ctx, p) {
		}
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		r.giveUp(p)
		<-p.done
	}
}

// pollFor handles completions as the leader. It returns false when p's caller no longer
// leads.
func (r *Requester) pollFor(ctx context.Context, p *pending) bool {
	n := 0
	if r.cq.Wait(r.lead.wait.within(r.ctx, ctx)) == nil {
		n = r.cq.Poll(r.batch())
	}
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	if r.handle(n) && !r.dead && len(p.done) == 0 && ctx.Err() == nil {
		return true
	}
	r.lead.caller = false
	for range maxMoves {
		if r.restLead() {
			return false
		}
		if r.dead || r.awaited > 0 || !r.handle(r.cq.Poll(r.batch())) { // what has come meanwhile
			break
		}
	}
	go r.poll()
	return false
}

// restLead stops all polling if no call waits. It returns false when a goroutine has to
// poll. The caller is the leader and holds link.mu.
func (r *Requester) restLead() bool {
	if r.dead || r.reverse || r.lead.goes || r.awaited > 0 {
		return false
	}
	r.idling.spare = true
	if !r.lead.often || r.callee.ready {
		return r.doze()
	}
	r.lead.rests = true
	r.lead.Leave()
	r.host.watch.Add((*leader)(r.link))
	return true
}

// finished tells the caller that its call is over, or has the outcome of a call made with Go
// reported. The caller of finished holds link.mu.
func (r *Requester) finished(p *pending) {
	r.awaited--
	r.lead.answered, r.lead.often = true, r.now.Sub(r.lead.last) < lease.Patience
	r.lead.last = r.now
	if p.toDo != nil {
		r.over(p)
		return
	}
	p.done <- struct{}{}
}

// callerWait makes the contexts with which callers poll. It belongs to the leader.
type callerWait struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   <-chan struct{} // of the last caller's context
	forget func() bool     // removes the registration of that context's end
}

// within returns a context that ends with the connection or with the caller's context. If
// the last caller had the same context, that costs nothing.
func (w *callerWait) within(connection, caller context.Context) context.Context {
	if w.ctx == nil || w.ctx.Err() != nil {
		w.release()
		w.ctx, w.cancel = context.WithCancel(connection)
	}
	if done := caller.Done(); done != w.done {
		if w.forget != nil {
			w.forget()
		}
		w.done, w.forget = done, nil
		if done != nil {
			w.forget = context.AfterFunc(caller, w.cancel)
		}
	}
	return w.ctx
}

// release ends the context and the registration.
func (w *callerWait) release() {
	if w.forget != nil {
		w.forget()
	}
	if w.cancel != nil {
		w.cancel()
	}
	*w = callerWait{}
}

// releaseAndGather releases the lock after a caller has begun its call, and posts. goes means
// that the call was made with Go.
func (r *Requester) releaseAndGather(goes bool) {
	// Calls that are over, or have not begun, have callers that run or are about to.
	r.mu.releaseAndGather(!goes && r.inCalls > r.awaited)
}
