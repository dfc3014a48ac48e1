package rpctcp

import "sync"

// Crew serves the calls of a connection in goroutines: as many as there were ever calls at one
// time, up to a limit. One goroutine at a time gives it calls.
type Crew[C interface{ Serve() }] struct {
	calls   chan C
	size    int // belongs to the goroutine that gives calls
	working sync.WaitGroup
}

// NewCrew returns a crew without goroutines.
func NewCrew[C interface{ Serve() }]() Crew[C] { return Crew[C]{calls: make(chan C)} }

// Give has a call served. It starts a goroutine when all are busy and there are fewer than
// most. Otherwise it waits for one.
func (c *Crew[C]) Give(call C, most int) {
	select {
	case c.calls <- call:
		return
	default:
	}
	if c.size == most {
		c.calls <- call
		return
	}
	c.size++
	c.working.Go(func() { c.work(call) })
}

// work serves a call and then further calls.
func (c *Crew[C]) work(call C) {
	for ok := true; ok; call, ok = <-c.calls {
		call.Serve()
	}
}

// Dismiss waits until all calls were served, and ends the goroutines. No more calls may be
// given.
func (c *Crew[C]) Dismiss() {
	close(c.calls)
	c.working.Wait()
}
