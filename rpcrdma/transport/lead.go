package transport

import (
	"slices"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/lease"
)

// Leader and followers. Giving a call to a worker wakes a thread, and sleeping until the
// reply is posted wakes another. That is most of the cost of a short call. So the
// goroutine that polls a connection, its leader, serves a call itself when that call is the
// only work on the connection and recent calls were short. It also serves calls that came
// together, if these are so short that giving them to workers costs as much, and posts
// their replies by one call. Calls of a service that answers later (ResponderConfig.Later)
// keep nothing waiting, so it serves these whatever else is in progress. A leader that takes
// longer loses the lead: the host's watch starts another goroutine that continues to poll,
// and takes over what the leader had left to do. So a service may wait for anything, even
// for completions of its own connection.
const (
	// together is how long a leader serves calls that came together before it posts their
	// replies, and gives the rest to workers. quick is the longest mean time of such calls
	// after which leaders continue to serve several.
	together = 50 * time.Microsecond
	quick    = 10 * time.Microsecond
)

// lead is a link's leader state. Only the leader uses it, except the lease.
type lead struct {
	lease.Lead

	polling bool     // drainCQ handles completions; under link.mu
	handed  []*call  // calls delivered while polling
	served  int      // how many of these were served; the next is being served
	replies int      // of the served ones, calls whose replies are not sent yet: the first of handed
	then    []func() // what to do once these replies are on their way
	// answered means that a call of ours ended since the last rest; under link.mu.
	answered bool
	last     time.Time // when a call of ours last ended; under link.mu
	often    bool      // it ended soon after the one before; under link.mu
	seen     int       // completions in link.wc that are not handled yet
	over     outcomes
	wait     callerWait
	goes     bool // the last call was made with Go, whose callers do not poll; under link.mu
	caller   bool // the leader is a caller that waits for its reply; under link.mu
	rests    bool // the leader is away because no call waits, and calls come often
}

// hand gives a call to the leader or to a worker. The caller holds link.mu.
func (l *link) hand(c *call) {
	if l.lead.polling && !c.early {
		l.lead.handed = append(l.lead.handed, c)
		return
	}
	l.host.workers.serve(&l.flow, c)
}

// mayServe returns how many of the handed calls the leader serves itself. The caller holds
// link.mu.
func (l *link) mayServe() int {
	d, n := &l.lead, len(l.lead.handed)
	switch {
	case d.Rest > 0:
		d.Rest -= min(d.Rest, n)
		return 0
	case n == 0 || l.dead || l.ending || !l.later && !l.sq.idle() || !l.role.alone(n):
		return 0
	case n > 1 && !l.host.workers.calm():
		return 0
	}
	return n
}

// serveHanded serves the handed calls here or gives them to workers. It returns false if
// the leader lost the lead meanwhile.
func (l *link) serveHanded(here int) bool {
	switch here {
	case 0:
		l.clearHanded(0)
		return true
	case 1:
		c := l.lead.handed[0]
		l.lead.handed[0] = nil
		l.lead.handed = l.lead.handed[:0]
		return l.serve(c)
	}
	return l.serveTogether()
}

// serve runs a call in the leader. It returns false if the goroutine lost the lead. The
// goroutine may then no longer use the link.
func (l *link) serve(c *call) bool {
	d := &l.lead
	began := l.now
	turn := d.Leave()
	l.host.watch.Add((*leader)(l))
	answered := c.serve()
	if !d.Return(turn) {
		if answered {
			c.finish()
		}
		return false
	}
	took := time.Since(began)
	if !answered {
		d.Judge(took <= lease.Brisk)
		return true
	}
	// The reply is not sent yet, so completions that are here now did not wait for it.
	if took > lease.Bearable {
		_ = l.cq.Wait(oncrpc.NoWait) // nobody may have read the connection
	}
	d.seen = l.cq.Poll(l.wc)
	d.Judge(took <= lease.Bearable || took <= lease.Brisk && !slices.ContainsFunc(l.wc[:d.seen], isReceive))
	c.finish()
	return true
}

// serveTogether serves the handed calls one after the other, and sends their replies
// together. When that takes too long, workers serve the rest. It returns false if the
// goroutine lost the lead. The goroutine may then no longer use the link.
func (l *link) serveTogether() bool {
	d := &l.lead
	began, took := time.Now(), time.Duration(0)
	for d.served < len(d.handed) && took < d.patience() {
		c := d.handed[d.served]
		turn := d.Leave()
		l.host.watch.Add((*leader)(l))
		c.left = turn
		answered := c.serve()
		if !d.Return(turn) {
			if answered {
				c.finish()
			}
			return false
		}
		d.served++
		if answered {
			d.handed[d.replies] = c
			d.replies++
		}
		took = time.Since(began)
	}
	d.Judge(took <= quick*time.Duration(d.served) || d.replies == 0 && took <= lease.Brisk)
	l.clearHanded(d.served)
	return true
}

// patience returns how long the leader may serve calls that came together. Without a reply
// that waits, it is as long as a call may take.
func (d *lead) patience() time.Duration {
	if d.replies == 0 {
		return lease.Brisk
	}
	return together
}

// clearHanded gives the handed calls from the first on to workers. Then it sends the
// replies of the calls that were served.
func (l *link) clearHanded(first int) {
	d := &l.lead
	for _, c := range d.handed[first:] {
		l.host.workers.serve(&l.flow, c)
	}
	if d.replies > 0 {
		l.answerTogether(d.handed[:d.replies])
	}
	clear(d.handed)
	d.handed, d.served, d.replies = d.handed[:0], 0, 0
}

// answerTogether sends the replies of calls by one post.
func (l *link) answerTogether(calls []*call) {
	d := &l.lead
	l.mu.Lock()
	for _, c := range calls {
		if f := c.r.answerLocked(c); f != nil {
			d.then = append(d.then, f)
		}
	}
	l.mu.releaseAndPost()
	for i, f := range d.then {
		f()
		d.then[i] = nil
	}
	d.then = d.then[:0]
	l.busy.Add(-len(calls))
}

// takeOver finishes what the last leader had left to do, if it lost the lead while it
// served one call of several, or reported one outcome of several.
func (l *link) takeOver() {
	if len(l.lead.handed) > 0 {
		l.clearHanded(l.lead.served + 1)
	}
	l.lead.over.takeOver(&l.host.workers)
}

func isReceive(wc verbs.WC) bool { return wc.Op == verbs.WCRecv }

// leader is a link in its role as lease.Holder.
type leader link

var _ lease.Holder = (*leader)(nil)

// Lease implements lease.Holder.
func (l *leader) Lease() *lease.Lease { return &l.lead.Lease }

// Expired implements lease.Holder. The leader has served a call for too long, or no caller
// has polled.
func (l *leader) Expired() {
	if !l.lead.rests {
		l.lead.Tire()
	} else if l.lead.rests = false; (*link)(l).doze() {
		return
	}
	go (*link)(l).poll()
}
