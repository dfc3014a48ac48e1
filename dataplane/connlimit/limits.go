package connlimit

import "time"

// Limits of a table. They may change at any time. Connections beyond a lowered limit stay
// until they are idle and newcomers need their places.
type Limits struct {
	// Total is the number of places. 0 means no limit.
	Total int
	// PerKey is the largest number of places of one key. 0 means no limit.
	PerKey int
	// KeyGrace replaces Grace when a newcomer takes a place of its own key. 0 means Grace.
	// A short time lets a client in that did not end its earlier connections.
	KeyGrace time.Duration
	// Weight is the largest sum of the weights of the places. 0 means no limit. While Total
	// places of a newcomer's weight would exceed it, places of one key may have a quarter of it.
	Weight int
	// Reserved is how many places of Total are reserved for class Reserved.
	Reserved int
	// Idle is the time without use after which Age evicts a connection. 0 means never.
	Idle time.Duration
	// HalfOpen is the time after which Age evicts a connection that has done nothing yet. 0
	// means Idle.
	HalfOpen time.Duration
}

// Grace is how long a connection without work in flight must be idle before a newcomer may
// take its place. It is long for a client that just made a call, and short for an operator
// who waits.
const Grace = 10 * time.Second

// HalfOpenGrace is how long an accepted connection may do nothing before a newcomer may
// take its place: enough for a round trip, a lost packet and some computing.
const HalfOpenGrace = 3 * time.Second

// FairGrace is how long a connection without work in flight must be idle before a key that
// would still have fewer places may take its place. It protects a client between two calls.
// A peer keeps its places from such keys only by making many calls on each of its
// connections.
const FairGrace = 100 * time.Millisecond

// Within lowers the limits to most places. A smaller table keeps a quarter of them for keys
// other than any one key, and for class Reserved.
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

// halfOpen returns HalfOpen or its default.
func (l *Limits) halfOpen() time.Duration {
	if l.HalfOpen == 0 {
		return l.Idle
	}
	return l.HalfOpen
}

// leavingLimit limits the evicted connections that have not left yet. A table may briefly
// hold this many beyond its Total.
func (l *Limits) leavingLimit() int { return 16 + l.Total/16 }

// A member behind a half-open connection in a group came later, so its Grace ends after the
// other's HalfOpenGrace.
const _ = uint64(Grace - HalfOpenGrace)
