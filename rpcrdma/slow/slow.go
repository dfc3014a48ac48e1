// Package slow finds the calls that a server answers slowly, and where their time went. While
// nothing is measured a call costs one atomic read; while calls are measured, some readings of
// the clock.
package slow

import (
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Calls finds the slow calls of a connection. The zero value finds none.
type Calls struct {
	// Limit is the shortest time of a slow call, in ns. With 0 nothing is measured. It may
	// change at any time.
	Limit *atomic.Int64
	// Report gets each slow call when its reply has left or its connection has ended. It may
	// be called with locks held. It must not wait, nor call the connection. With nil nothing is
	// measured.
	Report func(Call)
}

// On reports whether calls are measured.
func (s *Calls) On() bool { return s.Limit != nil && s.Report != nil && s.Limit.Load() != 0 }

// Begin begins a call that arrived at a time. t is the timeline of an earlier call that has
// ended, or nil. While calls are not measured, it returns nil.
func (s *Calls) Begin(t *Timeline, at time.Time) *Timeline {
	if !s.On() {
		return nil
	}
	if t == nil {
		t = new(Timeline)
	}
	t.Begin(at)
	return t
}

// BeginNow is Begin for a call that arrives now. It reads the clock only if calls are measured.
func (s *Calls) BeginNow(t *Timeline) *Timeline {
	if !s.On() {
		return nil
	}
	return s.Begin(t, time.Now())
}

// SoFar reports whether a call was slow before its reply was posted.
func (s *Calls) SoFar(t *Timeline) bool {
	return t.running() && t.at[Served].Sub(t.at[Arrived]) >= time.Duration(s.Limit.Load())
}

// End ends a call whose reply left at a time, and reports the call if it was slow. lost means
// that the connection ended before the reply had left.
func (s *Calls) End(t *Timeline, at time.Time, lost bool) {
	if !t.running() {
		return
	}
	t.Note(Completed, at)
	c := t.end()
	if limit := time.Duration(s.Limit.Load()); limit == 0 || c.Took < limit {
		return
	}
	c.Lost = lost
	s.Report(c)
}

// EndNow is End for a reply that left now.
func (s *Calls) EndNow(t *Timeline, lost bool) {
	if t.running() {
		s.End(t, time.Now(), lost)
	}
}

// Call is a call that took long, and where its time went.
type Call struct {
	XID, Program, Version, Procedure uint32

	Arrived time.Time     // its first message
	Took    time.Duration // until its reply had left: the sum of the following times

	Receive time.Duration // until the whole call had arrived and its service started, without Read
	Read    time.Duration // RDMA Reads of its read chunks
	Service time.Duration // the service
	Post    time.Duration // until its reply was in the send queue
	// Completion is the time until the provider had sent the reply. It is 0 for a small reply
	// to a call that was not slow before, because that needs no completion of its own.
	Completion time.Duration

	// Upstream is the part of Service that another server took.
	Upstream time.Duration
	// Lost means that the connection ended before the reply had left.
	Lost bool
}

// Moment is a point in the life of a call.
type Moment int

// The moments of a call, in their order.
const (
	Arrived   Moment = iota
	Reading          // the RDMA Reads of its chunks are posted, or wait for those of others
	Delivered        // all of it has arrived
	Started          // its service
	Served
	Posted // its reply
	Completed
	moments
)

// Timeline has the moments of a call in progress. A moment that did not happen is zero. A nil
// Timeline has no call, and its methods do nothing.
type Timeline struct {
	at   [moments]time.Time
	call Call // without its times
}

// Begin begins a new call.
func (t *Timeline) Begin(at time.Time) { *t = Timeline{at: [moments]time.Time{Arrived: at}} }

// Reset ends the call, if any, without a report.
func (t *Timeline) Reset() { *t = Timeline{} }

// When returns a moment.
func (t *Timeline) When(m Moment) time.Time { return t.at[m] }

// running reports whether a call has begun and not ended.
func (t *Timeline) running() bool { return t != nil && !t.at[Arrived].IsZero() }

// Note records a moment if it is the first of its kind.
func (t *Timeline) Note(m Moment, at time.Time) {
	if t.running() && t.at[m].IsZero() {
		t.at[m] = at
	}
}

// Pass records that a moment is now.
func (t *Timeline) Pass(m Moment) {
	if t.running() {
		t.Note(m, time.Now())
	}
}

// Is records which call it is.
func (t *Timeline) Is(c *oncrpc.Call) {
	if t.running() {
		t.call.XID, t.call.Program, t.call.Version, t.call.Procedure = c.XID, c.Program, c.Version, c.Procedure
	}
}

// Upstream records how much of the service's time another server took.
func (t *Timeline) Upstream(d time.Duration) {
	if t.running() {
		t.call.Upstream = d
	}
}

// end ends the call, and returns where its time went.
func (t *Timeline) end() Call {
	if t.at[Reading].IsZero() { // nothing was read, but the parts of a call come one by one
		t.at[Reading] = t.at[Delivered]
	}
	for m := Reading; m < moments; m++ {
		if t.at[m].Before(t.at[m-1]) { // it did not happen, or was seen late
			t.at[m] = t.at[m-1]
		}
	}
	took := func(m Moment) time.Duration { return t.at[m].Sub(t.at[m-1]) }
	c := t.call
	c.Arrived, c.Took = t.at[Arrived], t.at[Completed].Sub(t.at[Arrived])
	c.Receive, c.Read = took(Reading)+took(Started), took(Delivered)
	c.Service, c.Post, c.Completion = took(Served), took(Posted), took(Completed)
	t.Reset()
	return c
}
