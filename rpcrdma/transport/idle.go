package transport

import (
	"context"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// A connection that rests has no goroutine that polls: the completion queue starts
// one at the next completion (verbs.Notifier). A busy connection keeps its
// goroutine, because a new one has to grow its stack first. So a connection rests
// from its start to the first completion, and again after a whole tick without a
// message. Storage that only a busy connection needs is freed meanwhile.

// idling is the state of a link's rests.
type idling struct {
	asleep atomic.Bool        // no goroutine polls; the goroutine that makes it false starts one
	cq     verbs.Notifier     // nil: the completion queue can't, and the link never rests
	tired  context.CancelFunc // makes the goroutine that polls rest; under link.mu
	moved  uint64             // Sends and Receives up to the last tick
}

// awake gives the context in which a goroutine waits for completions: it ends
// when the link is to rest, or with the connection.
func (l *link) awake() (ctx context.Context, tired context.CancelFunc) {
	ctx, tired = context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idling.tired = tired; l.dead {
		tired()
	}
	return ctx, tired
}

// restIfIdle makes a link rest when nothing was sent and nothing arrived since the
// last tick: the memory of its last replies is freed, and the goroutine that polls
// ends. link.mu is held.
func (l *link) restIfIdle() {
	if n := l.stats.Sends + l.stats.Receives; n != l.idling.moved {
		l.idling.moved = n
		return
	}
	l.flushLocked()
	if l.idling.cq != nil && l.idling.tired != nil {
		l.idling.tired()
		l.idling.tired = nil
	}
}

// sleep begins a rest; false when there is something to do already. The goroutine
// that polls calls it, or the start in place of making one.
func (l *link) sleep() bool {
	if l.idling.cq == nil {
		return false
	}
	l.mu.Lock()
	l.shrink()
	l.mu.Unlock()
	l.idling.asleep.Store(true)
	if l.idling.cq.ReqNotify(l.wake) && l.ctx.Err() == nil {
		return true
	}
	return !l.idling.asleep.CompareAndSwap(true, false)
}

// wake ends a rest, if no one else has.
func (l *link) wake() {
	if l.idling.asleep.CompareAndSwap(true, false) {
		l.poll()
	}
}

// shrink frees what only a busy connection needs. link.mu is held, by the
// goroutine that polls.
func (l *link) shrink() {
	l.wc, l.lead.handed, l.ended = nil, nil, nil
	l.sq.shrink()
	l.role.shrink()
}
