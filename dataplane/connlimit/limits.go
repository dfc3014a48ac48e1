package connlimit

import "time"

// Limits of a table. They may change at any time: connections that are over a
// lowered limit stay until they are idle and newcomers need their places.
type Limits struct {
	// Total places; 0 is no limit.
	Total int
	// PerKey is the most places of one key; 0 is no limit.
	PerKey int
	// KeyGrace is Grace where a newcomer takes the place of one of its own key; 0
	// is Grace. Where it is short, a client that does not end its connections
	// does not keep itself out.
	KeyGrace time.Duration
	// Reserved places of Total are kept for holders of class Reserved; at most all.
	Reserved int
	// Idle is the time without use after which a connection is evicted by
	// Age; 0 is never.
	Idle time.Duration
	// HalfOpen is the time after which a connection that has done nothing yet
	// is evicted by Age; 0 is as Idle.
	HalfOpen time.Duration
}

// Grace is how long a connection without work in flight is idle before a newcomer may
// take its place. It is long for a client that just made a call, and short for an
// operator who waits.
const Grace = 10 * time.Second

// HalfOpenGrace is how long an accepted connection may do nothing before a newcomer
// may take its place: a round trip, a lost packet and some computing.
const HalfOpenGrace = 3 * time.Second

// FairGrace is how long a connection without work in flight is idle before its place
// may be taken for a key that has fewer places, even with the new one. It spares a client
// between two calls. To keep its places from such keys, a peer has to make
// many calls on each of its connections.
const FairGrace = 100 * time.Millisecond

// Within lowers the limits to a number of places. A smaller table keeps a
// quarter of them for others than any one key, and for class Reserved.
func (l Limits) Within(most int) Limits {
	if l.Total > 0 && l.Total <= most {
		return l
	}
	part := max(most/4, 1)
	l.Total, l.Reserved = most, min(l.Reserved, most/4)
	if l.PerKey == 0 || l.PerKey > part {
		l.PerKey = part
	}
	return l
}

// halfOpen is HalfOpen with its default.
func (l *Limits) halfOpen() time.Duration {
	if l.HalfOpen == 0 {
		return l.Idle
	}
	return l.HalfOpen
}

// leavingLimit bounds the evicted connections that have not left yet. A table may
// hold this many beyond its Total for a moment.
func (l *Limits) leavingLimit() int { return 16 + l.Total/16 }

// One that stands behind a half-open connection in a group came later, so that
// its Grace ends after the other's HalfOpenGrace.
const _ = uint64(Grace - HalfOpenGrace)
