package regmem

import (
	"context"
	"fmt"
	"slices"

	"github.com/rdmad/rdmad/verbs/offheap"
)

// waiter is a request that waits for memory. turn holds a token when it should try again.
type waiter struct {
	turn   chan struct{}
	beside bool // older requests may wait for its call: see AllocBeside
}

func (w *waiter) again() {
	select {
	case w.turn <- struct{}{}:
	default:
	}
}

// oldest returns the first request of one kind, or nil.
func oldest(q []*waiter, beside bool) *waiter {
	if i := slices.IndexFunc(q, func(w *waiter) bool { return w.beside == beside }); i >= 0 {
		return q[i]
	}
	return nil
}

// Alloc returns a buffer of at least n bytes, in the order of the requests. It waits until
// there is one, ctx ends or the pool is closed. A small one for Service goes before the others if
// there is room for its class, because the caller may hold memory that they wait for.
func (p *Pool) Alloc(ctx context.Context, n int, use Use) (*Buffer, error) {
	return p.AllocBeside(ctx, n, use, 0, -1)
}

// AllocBeside is Alloc for a call. The call keeps buffers of held bytes meanwhile: own bytes that it got for itself, and
// its caller's. Older requests for which there is no memory do not keep it waiting, because they may wait for these
// buffers. With a reserve this is so without buffers, too: older requests may wait for calls that wait for this one. A
// call with 64 KiB of its own or more goes before all requests: others could get what it lacks, and then wait for what
// it has. It fails with ErrTooLarge if the buffers together are beyond the limit, or if nobody but the caller could
// give memory back.
func (p *Pool) AllocBeside(ctx context.Context, n int, use Use, own, held int64) (*Buffer, error) {
	if n > MaxBuffer {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, n, MaxBuffer)
	}
	class := classOf(n)
	first := own >= slabBytes
	p.mu.Lock()
	var b *Buffer
	var err error
	switch {
	case first || len(p.waiters[use]) == 0:
		b, err = p.take(class, use)
	case use == Service && class < firstLarge:
		b, err = p.takeExactly(class, use)
	}
	if b != nil || err != nil {
		p.mu.Unlock()
		return b, err
	}
	w := &waiter{turn: make(chan struct{}, 1), beside: held > 0 || held == 0 && p.reserve != nil}
	if first {
		p.waiters[use] = slices.Insert(p.waiters[use], 0, w)
	} else {
		p.waiters[use] = append(p.waiters[use], w)
	}
	p.lack(class, use)
	if q := p.waiters[use]; oldest(q, w.beside) == w {
		q[0].again() // take may have released the lock, so look again for buffers given back or a closed pool
	}
	p.mu.Unlock()
	return p.wait(ctx, w, n, use, held)
}

// lack reports a request that found no memory. When receives have their whole share, nobody
// can give memory back for another one.
func (p *Pool) lack(class int, use Use) {
	if use.receives() && !p.allowed(class, use) {
		return
	}
	p.scarce()
}

// wait waits until w has its turn, or the reserve is the pool's, and there is memory.
func (p *Pool) wait(ctx context.Context, w *waiter, n int, use Use, held int64) (*Buffer, error) {
	class := classOf(n)
	for {
		var err error
		owns := false
		turn := p.turn(ctx)
		select {
		case <-w.turn:
		case <-turn:
			owns = true
		case <-ctx.Done():
			err = ctx.Err()
		}
		if turn != nil {
			p.reserve.wanted.Add(-1)
		}
		p.mu.Lock()
		p.owns = p.owns || owns
		var b *Buffer
		if err == nil {
			b, err = p.take(class, use)
		}
		if b == nil && err == nil {
			vain := p.inVain(class, held) // lend releases the lock
			if b, err = p.lend(n, use, held); b == nil && err == nil && vain {
				err = fmt.Errorf("%w: %d bytes beside %d, the limit is %d", ErrTooLarge, classSize(class), held, p.limit)
			}
		}
		if b != nil || err != nil {
			p.leave(w, use)
			p.settle()
			p.wake()
			p.mu.Unlock()
			return b, err
		}
		if p.starved == nil { // it waits for this pool
			p.settle()
		}
		if owns {
			p.wake() // the reserve may have enough for others, who waited for the same turn
		}
		if q := p.waiters[use]; q[0] == w {
			p.pass(q)
		}
		p.mu.Unlock()
	}
}

// inVain reports whether a request beside held bytes is beyond the limit, or these are all that can be given back.
// p.mu is held.
func (p *Pool) inVain(class int, held int64) bool {
	return held+int64(classSize(class)) > p.limit ||
		p.used[Service]+p.used[Fetch] == held && p.busy == 0 && p.starved == nil
}

// wake lets the first waiter of each queue try again.
func (p *Pool) wake() {
	for _, q := range p.waiters {
		if len(q) > 0 {
			q[0].again()
		}
	}
}

// pass lets the first waiter of the other kind try, after the first of all, which found nothing. One that is not beside
// others goes on then only with the reserve, which has memory for each kind.
func (p *Pool) pass(q []*waiter) {
	if w := oldest(q, !q[0].beside); w != nil && (w.beside || p.owns) {
		w.again()
	}
}

func (p *Pool) leave(w *waiter, use Use) {
	q := p.waiters[use]
	if i := slices.Index(q, w); i >= 0 {
		p.waiters[use] = slices.Delete(q, i, i+1)
	}
	p.forgo()
}

// starve handles the process's memory limit. It frees an unused slab of this pool. If there
// is none, waiting callers look again when any pool has freed memory. again means that
// there may be memory already.
func (p *Pool) starve() (again bool) {
	if s := p.unused(classes - 1); s != nil {
		p.drop(s)
		return true
	}
	if p.starved != nil {
		return false
	}
	p.starved = offheap.Notify(p.fed)
	return true
}

// fed is called when any pool has freed memory. It wakes the waiting callers.
func (p *Pool) fed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starved = nil
	p.wake()
}

// forgo ends the wait for memory of the process if no request waits. The pool does not count as one of those who wait
// any more.
func (p *Pool) forgo() {
	waits := slices.ContainsFunc(p.waiters[:], func(q []*waiter) bool { return len(q) > 0 })
	if !waits && p.starved != nil && p.starved() {
		p.starved = nil
	}
}

// othersWait reports whether others wait for memory of the process. A pool that keeps what it gets
// back for its own requests could keep them waiting for ever.
func (p *Pool) othersWait() bool {
	n := offheap.Waiting()
	if p.starved != nil {
		n--
	}
	return n > 0
}
