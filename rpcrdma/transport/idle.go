package transport

import (
	"context"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// A resting connection has no goroutine that polls. The completion queue starts one at the
// next completion (verbs.Notifier). A busy responder keeps its goroutine, because a new
// one has to grow its stack first. So a connection rests from its start until the first
// completion, and again after a whole tick without a message. A requester also rests while
// no call waits: the next caller takes the lead of a resting connection (see
// requester_lead.go). After a tick of rest, the storage that only a busy connection needs is
// free.

// Values of idling.sleep.
const (
	polled  = iota
	dozing  // the completion queue is being asked to notify
	resting // no goroutine polls; the goroutine that sets polled polls, or starts one that does
	woken   // notified while dozing
)

// idling is the state of a link's rests.
type idling struct {
	sleep atomic.Int32
	cq    verbs.Notifier     // nil means that the completion queue does not support this, and the link never rests
	tired context.CancelFunc // makes the polling goroutine stop; under link.mu
	moved uint64             // Sends and Receives up to the last tick
	spare bool               // a caller polled, so there may be storage to free; under link.mu
}

// awake returns the context in which a goroutine waits for completions. It ends when the
// link is to rest or the connection ends.
func (l *link) awake() (ctx context.Context, tired context.CancelFunc) {
	ctx, tired = context.WithCancel(context.Background())
	l.mu.look()
	defer l.mu.Unlock()
	if l.idling.tired = tired; l.dead {
		tired()
	}
	return ctx, tired
}

// restIfIdle lets a link rest if nothing was sent and nothing arrived since the last tick.
// It frees the memory of the link's last replies and ends the polling goroutine. link.mu is
// held.
func (l *link) restIfIdle() {
	if n := l.stats.Sends + l.stats.Receives; n != l.idling.moved {
		l.idling.moved = n
		return
	}
	l.flushLocked()
	switch {
	case l.idling.cq == nil:
	case l.idling.spare && l.idling.rouse(): // no goroutine polls, so this one may
		l.idling.spare = false
		l.shrink()
		if !l.doze() {
			go l.poll()
		}
	case l.idling.tired != nil:
		l.idling.tired()
		l.idling.tired = nil
	}
}

// sleep begins a rest. It returns false if there is work already. The polling goroutine
// calls it, or start instead of creating that goroutine.
func (l *link) sleep() bool {
	if l.idling.cq == nil {
		return false
	}
	l.mu.look()
	l.shrink()
	l.mu.Unlock()
	return l.doze()
}

// doze is sleep without freeing anything. The caller leads. Before doze has returned, no
// caller of a call can take the lead.
func (l *link) doze() bool {
	if l.idling.cq == nil {
		return false
	}
	for ok := false; !ok; ok = l.idling.sleep.CompareAndSwap(dozing, resting) { // or an earlier request woke it
		l.idling.sleep.Store(dozing)
		if !l.idling.cq.ReqNotify(l.wake) {
			l.idling.sleep.Store(polled)
			return false
		}
	}
	return l.ctx.Err() == nil || !l.idling.rouse()
}

// rouse ends a rest. It returns false if there is none. Otherwise its caller has to poll.
func (i *idling) rouse() bool { return i.sleep.CompareAndSwap(resting, polled) }

// wake ends a rest and polls, unless another goroutine has done so. The completion may be
// that of an earlier request, and gone. Then the rest continues.
func (l *link) wake() {
	if !l.idling.sleep.CompareAndSwap(dozing, woken) && l.idling.rouse() && !l.doze() {
		l.poll()
	}
}

// shrink frees what only a busy connection needs. The polling goroutine calls it, with
// link.mu held.
func (l *link) shrink() {
	l.idling.cq.Shrink()
	l.wc, l.lead.handed, l.lead.over.calls, l.ended = nil, nil, nil, nil
	l.sq.shrink()
	l.waiting.shrink()
	l.ahead.shrink()
	l.role.shrink()
}
