package transport

import (
	"context"
	"slices"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/lease"
)

// Leader and followers. Giving a call to a worker wakes a thread, and sleeping until the
// reply is posted wakes another. That is most of the cost of a short call. So the
// goroutine that polls a connection, its leader, serves a call itself when that call is the
// only work on the connection and recent calls were short. A leader that takes longer loses
// the lead: the host's watch starts another goroutine that continues to poll. So a service
// may wait for anything, even for completions of its own connection.
const (
	// brisk is the longest time of a call after which leaders continue to serve calls.
	brisk = 2 * time.Millisecond
	// bearable is the longest time that a call may wait for a call served by a leader.
	bearable = 200 * time.Microsecond
	// leastRest is how many calls go to workers after a leader's call took longer. mostRest
	// is the maximum after several such calls.
	leastRest = 16
	mostRest  = 4096
)

// lead is a link's leader state. Only the leader uses it, except the lease.
type lead struct {
	lease.Lease // the leader is away while it serves a call

	polling bool    // drainCQ handles completions; under link.mu
	handed  []*call // calls delivered while polling
	// answered means that a call of ours ended since the last check by drainCQ; under link.mu.
	answered bool
	last     time.Time // when a call of ours last ended; under link.mu
	often    bool      // it ended soon after the one before; under link.mu
	seen     int       // completions in link.wc that are not handled yet
	wait     callerWait
	caller   bool // the leader is a caller that waits for its reply; under link.mu
	rests    bool // the leader is away because no call waits
	rest     int  // how many of the next calls go to workers
	penalty  int  // the last value set in rest
}

// hand gives a call to the leader or to a worker. The caller holds link.mu.
func (l *link) hand(c *call) {
	if l.lead.polling {
		l.lead.handed = append(l.lead.handed, c)
		return
	}
	l.host.workers.serve(&l.flow, c)
}

// mayServe reports whether the leader serves the handed calls itself. The caller holds
// link.mu.
func (l *link) mayServe() bool {
	d := &l.lead
	switch {
	case d.rest > 0:
		d.rest -= min(d.rest, len(d.handed))
		return false
	case l.dead || l.ending || len(d.handed) != 1 || !l.sq.idle():
		return false
	}
	return l.role.alone()
}

// serveHanded serves the handed calls here or gives them to workers. It returns false if
// the leader lost the lead meanwhile.
func (l *link) serveHanded(here bool) bool {
	if here {
		c := l.lead.handed[0]
		l.lead.handed[0] = nil
		l.lead.handed = l.lead.handed[:0]
		return l.serve(c)
	}
	for i, c := range l.lead.handed {
		l.host.workers.serve(&l.flow, c)
		l.lead.handed[i] = nil
	}
	l.lead.handed = l.lead.handed[:0]
	return true
}

// serve runs a call in the leader. It returns false if the goroutine lost the lead. The
// goroutine may then no longer use the link.
func (l *link) serve(c *call) bool {
	d := &l.lead
	began := l.now
	turn := d.Leave()
	l.host.watch.Add((*leader)(l))
	c.serve()
	if !d.Return(turn) {
		c.finish()
		return false
	}
	took := time.Since(began)
	// The reply is not sent yet, so completions that are here now did not wait for it.
	if took > bearable {
		_ = l.cq.Wait(noWait) // nobody may have read the connection
	}
	d.seen = l.cq.Poll(l.wc)
	switch {
	case took > brisk, took > bearable && slices.ContainsFunc(l.wc[:d.seen], isReceive):
		d.tire()
	default:
		d.penalty = 0
	}
	c.finish()
	return true
}

// noWait is a context that has ended. Wait with it only processes input that has arrived.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func isReceive(wc verbs.WC) bool { return wc.Op == verbs.WCRecv }

// tire makes the next calls go to workers, for longer each time.
func (d *lead) tire() {
	d.penalty = min(max(2*d.penalty, leastRest), mostRest)
	d.rest = d.penalty
}

// leader is a link in its role as lease.Holder.
type leader link

var _ lease.Holder = (*leader)(nil)

// Lease implements lease.Holder.
func (l *leader) Lease() *lease.Lease { return &l.lead.Lease }

// Expired implements lease.Holder. The leader has served a call for too long, or no caller
// has polled.
func (l *leader) Expired() {
	if !l.lead.rests {
		l.lead.tire()
	}
	l.lead.rests = false
	go (*link)(l).poll()
}
