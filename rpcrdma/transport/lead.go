package transport

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Leader and followers. Handing a call to a worker wakes a thread, and sleeping until
// the reply is posted wakes another. That is most of the cost of a short call. So the
// goroutine that polls a connection, its leader, serves a call itself when the call
// is the only work on the connection and calls have been short lately. A leader that
// takes longer loses the lead: the watch starts another goroutine that continues to
// poll. A service may therefore wait for anything, completions of its own connection
// included.
const (
	// patience is how long a leader may serve a call before it may lose the lead. It
	// loses the lead before twice that time. Looking every millisecond would cost
	// more than leaders save.
	patience = 10 * time.Millisecond
	// brisk is how long the calls may take that leaders serve.
	brisk = 2 * time.Millisecond
	// bearable is how long a call may wait for one that a leader serves.
	bearable = 200 * time.Microsecond
	// leastRest is how many calls go to workers after one that took longer,
	// mostRest how many at most when others did before.
	leastRest = 16
	mostRest  = 4096
)

// lead is what a link knows of its leader. But for turn and watched it is the
// leader's own.
type lead struct {
	// turn is odd while the leader serves a call. The goroutine that makes it even
	// has the lead after that.
	turn    atomic.Uint64
	watched atomic.Bool // by the host's watch, or about to be

	polling bool    // completions are being handled; under link.mu
	handed  []*call // delivered meanwhile
	seen    int     // completions in link.wc that are not handled yet
	rest    int     // calls to come that are for workers
	penalty int     // the last number of them
}

// hand gives a call to whoever is to serve it. link.mu is held.
func (l *link) hand(c *call) {
	if l.lead.polling {
		l.lead.handed = append(l.lead.handed, c)
		return
	}
	l.host.workers.serve(&l.flow, c)
}

// mayServe says whether the leader is to serve what was handed over. link.mu is
// held.
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

// serveHanded has the calls served that were handed over; false when the lead
// is lost meanwhile.
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

// serve runs a call in the leader; false when that has lost the lead. Nothing of
// the link is its own then.
func (l *link) serve(c *call) bool {
	d := &l.lead
	began := l.now
	turn := d.turn.Add(1)
	if !d.watched.Load() {
		l.host.watch.add(l)
	}
	c.serve()
	if !d.turn.CompareAndSwap(turn, turn+1) {
		c.finish()
		return false
	}
	took := time.Since(began)
	// The reply is not out: what has come by now did not wait for it.
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

func isReceive(wc verbs.WC) bool { return wc.Op == verbs.WCRecv }

// tire has calls go to workers for a while, for longer each time.
func (d *lead) tire() {
	d.penalty = min(max(2*d.penalty, leastRest), mostRest)
	d.rest = d.penalty
}

// relieve takes the lead from the goroutine that began to serve a call with turn.
func (l *link) relieve(turn uint64) {
	if !l.lead.turn.CompareAndSwap(turn, turn+1) {
		return
	}
	l.lead.tire()
	go l.poll()
}

// watch relieves the leaders of a host that serve a call for too long. Its timer
// runs while leaders serve calls, whichever they are: one for each call would
// wake threads itself.
type watch struct {
	mu     sync.Mutex
	links  []watchedLink
	timer  *time.Timer
	armed  bool
	closed bool
}

type watchedLink struct {
	*link
	turn uint64 // when it was last looked at
}

// add has the watch look at a link whose leader serves a call.
func (w *watch) add(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || l.lead.watched.Swap(true) {
		return
	}
	w.links = append(w.links, watchedLink{l, l.lead.turn.Load()})
	w.armLocked()
}

func (w *watch) armLocked() {
	switch {
	case w.armed:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(patience, w.look)
	default:
		w.timer.Reset(patience)
	}
	w.armed = true
}

// look relieves leaders that serve the same call as the last time, and forgets
// links where nothing has happened since.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	if w.closed {
		return
	}
	kept := w.links[:0]
	for _, x := range w.links {
		turn := x.lead.turn.Load()
		switch {
		case turn != x.turn:
			kept = append(kept, watchedLink{x.link, turn})
		case turn&1 != 0:
			x.relieve(turn)
			kept = append(kept, watchedLink{x.link, turn + 1})
		case x.idle():
		default:
			kept = append(kept, x)
		}
	}
	clear(w.links[len(kept):])
	if w.links = kept; len(kept) > 0 {
		w.armLocked()
	}
}

// idle has the leader say when it serves its next call; false if it has begun
// to.
func (x *watchedLink) idle() bool {
	x.lead.watched.Store(false)
	return x.lead.turn.Load() == x.turn || x.lead.watched.Swap(true)
}

// close ends the watch. No leader serves a call any more.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	clear(w.links)
	w.links = nil
	if w.timer != nil {
		w.timer.Stop()
	}
}
