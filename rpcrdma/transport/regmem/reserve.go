package regmem

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/verbs/offheap"
)

// Reserve is memory that the process keeps for pools, which go on with it when others have all the rest.
// Calls of a client hold memory until a listener has answered them, and the listener may be in the same
// process. One pool at a time uses a reserve: calls of several pools could each have a part of what they need.
type Reserve struct {
	// A call gets memory in this order, and holds nothing of a part while it waits for one before that: data that is
	// read; what Alloc returns, for replies of services, arguments and results; what AllocBeside returns, for the message
	// and the chunks of a call that is made. A reply that is read has its data last, and waits for nothing more.
	fetch, service, beside *offheap.Part
	turn                   chan struct{} // a token while no pool uses the reserve
	wanted                 atomic.Int32  // requests that wait for turn
}

// most is what the buffers of a call for one purpose need at most, in bytes: of a message of MaxBuffer bytes all
// pieces begin at a page.
const most = MaxBuffer + slabBytes

// NewReserve makes the reserve of a pool that reads calls and answers them: one of each is always possible.
func NewReserve() *Reserve { return newReserve(MaxBuffer, slabBytes) }

// NewCallReserve makes a reserve for pools of which calls are made: one call is always possible, with arguments and
// results in buffers of Alloc, message and reply, also if the reply is read.
func NewCallReserve() *Reserve { return newReserve(2*most, 2*most) }

func newReserve(service, beside int) *Reserve {
	r := &Reserve{
		fetch: offheap.Keep(MaxBuffer), service: offheap.Keep(service), beside: offheap.Keep(beside),
		turn: make(chan struct{}, 1),
	}
	r.turn <- struct{}{}
	return r
}

// Close gives the memory to all. Buffers in use stay. A second Close does nothing.
func (r *Reserve) Close() {
	r.fetch.Close()
	r.service.Close()
	r.beside.Close()
}

// part returns what a request is served from.
func (r *Reserve) part(use Use, held int64) *offheap.Part {
	switch {
	case use == Fetch:
		return r.fetch
	case held < 0:
		return r.service
	}
	return r.beside
}

// SetReserve gives the pool a reserve. Call it before the pool is used. The caller closes the reserve after the pool.
func (p *Pool) SetReserve(r *Reserve) { p.reserve = r }

// Wanted reports whether requests wait for their pool's turn.
func (r *Reserve) Wanted() bool { return r.wanted.Load() > 0 }

// GiveWay waits, before a call has any memory, until the pool has left the reserve, if other pools want it. Else a
// pool whose calls overlap would keep it for ever. It waits until ctx ends, and at most for the time given.
func (p *Pool) GiveWay(ctx context.Context, most time.Duration) {
	if p.reserve == nil || !p.reserve.Wanted() {
		return
	}
	p.mu.Lock()
	if !p.owns || p.lent == 0 {
		p.mu.Unlock()
		return
	}
	if p.settled == nil {
		p.settled = make(chan struct{})
	}
	settled := p.settled
	p.mu.Unlock()
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-settled:
	case <-t.C:
	case <-ctx.Done():
	}
}

// turn returns what to wait on for the reserve: nil if the process has memory, the reserve is the pool's already,
// or the caller cannot wait. Else the request counts as wanting it.
func (p *Pool) turn(ctx context.Context) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reserve == nil || p.owns || p.starved == nil || ctx.Err() != nil {
		return nil
	}
	p.reserve.wanted.Add(1)
	return p.reserve.turn
}

// lend returns a buffer of the reserve, or nil if the reserve is not the pool's or has too little left. p.mu is held,
// but released meanwhile.
func (p *Pool) lend(n int, use Use, held int64) (*Buffer, error) {
	if !p.owns || p.starved == nil || use.receives() {
		return nil, nil
	}
	p.lent++
	p.begin()
	b, err := p.alone((n+pageSize-1)/pageSize*pageSize, p.reserve.part(use, held).Alloc)
	p.end()
	if err != nil {
		p.lent--
		if errors.Is(err, offheap.ErrLimit) {
			err = nil
		}
		return nil, err
	}
	b.slab.lent = true
	return b, nil
}

// settle leaves the reserve to other pools once nothing of it is in use. p.mu is held.
func (p *Pool) settle() {
	if p.owns && p.lent == 0 {
		p.owns = false
		if p.settled != nil {
			close(p.settled)
			p.settled = nil
		}
		p.reserve.turn <- struct{}{}
		p.wake()
	}
}
