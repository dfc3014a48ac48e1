package loopback

import (
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/verbs/driver"
)

// link is one connection: two ends and the messages between them. One lock guards all of
// it.
type link struct {
	fabric *Fabric

	mu    sync.Mutex
	ends  [2]*end // active, passive (nil until the request arrived)
	wires [2]wire // messages sent by ends[i]
	sent  int     // messages, for Faults.DropAfter
	timer *time.Timer
	armed time.Time // when timer fires; zero means not armed
}

func newLink(p *Provider, local, remote netip.AddrPort) *end {
	l := &link{fabric: p.fabric}
	e := newEnd(l, p, local, remote)
	e.wire = &l.wires[0]
	l.ends[0] = e
	return e
}

// attach makes the passive end for a request that arrived at p. p has counted it already.
func (l *link) attach(p *Provider, addr netip.AddrPort) *end {
	active := l.ends[0]
	e := newEnd(l, p, addr, active.LocalAddr())
	e.wire = &l.wires[1]
	e.peer, active.peer = active, e
	l.ends[1] = e
	return e
}

func newEnd(l *link, p *Provider, local, remote netip.AddrPort) *end {
	e := &end{link: l, provider: p, answered: make(chan struct{})}
	e.Init(local, remote)
	return e
}

// run executes everything that is possible now, then arms the timer for the rest. The lock
// is held.
func (l *link) run() {
	for again := true; again; {
		again = false
		for _, e := range l.ends {
			if e != nil && e.advance() {
				again = true
			}
		}
		for _, e := range l.ends {
			if e != nil && e.arrive() {
				again = true
			}
		}
	}
	l.arm()
}

// fire is called by the timer.
func (l *link) fire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = time.Time{}
	l.run()
}

// arm sets the timer to the earliest deadline.
func (l *link) arm() {
	var next time.Time
	for _, e := range l.ends {
		if e != nil {
			next = earliest(next, e.deadline())
		}
	}
	if next.Equal(l.armed) {
		return
	}
	l.armed = next
	switch {
	case next.IsZero():
		l.timer.Stop()
	case l.timer == nil:
		l.timer = time.AfterFunc(time.Until(next), l.fire)
	default:
		l.timer.Reset(time.Until(next))
	}
}

// earliest returns the earlier of two deadlines. Zero means none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// end is one side of a connection. It implements rdmacm.ID. The link's lock guards the
// fields below the line.
type end struct {
	driver.ID[*queuePair]
	link     *link
	provider *Provider
	answered chan struct{} // closed when there is an answer

	// ---

	peer    *end
	wire    *wire // messages that this end sends
	phase   phase
	answer  error      // result of Connect
	qp      *queuePair // that of the identifier
	drainBy time.Time  // deadline of Disconnect while draining
	late    ring[lateWC]
}

// phase is the state of an end.
type phase uint8

const (
	phaseUnanswered phase = iota // active: no answer yet
	phaseRequested               // passive: neither accepted nor rejected
	phaseUp
	phaseDraining // up, after Disconnect
	phaseEnded
)
