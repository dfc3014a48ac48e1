package dataplane

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/adaptive"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/credit"
)

// The limit of memory, in bytes.
const (
	DefaultMemory = 1 << 30 // when Config leaves it 0
	MinMemory     = 16 << 20
	MaxMemory     = 1 << 40
)

// MemoryError means that a memory limit is out of range.
type MemoryError struct{ Value int64 }

func (e *MemoryError) Error() string { return "memory: " + e.Reason() }

// Reason is the error without what it is about.
func (e *MemoryError) Reason() string {
	return fmt.Sprintf("%d is out of range %d..%d", e.Value, int64(MinMemory), int64(MaxMemory))
}

// Memory is the memory limit, in bytes.
func (d *Dataplane) Memory() int64 { return d.division.limit.Load() }

// SetMemory changes the limit; 0 means the default. Memory in use stays in use:
// grants become smaller, and listeners give back what they no longer need. The
// error is a *MemoryError.
func (d *Dataplane) SetMemory(n int64) error {
	if n == 0 {
		n = DefaultMemory
	}
	if n < MinMemory || n > MaxMemory {
		return &MemoryError{n}
	}
	d.division.setLimit(n)
	d.division.wake()
	return nil
}

// division divides credits and registered memory between connections and
// listeners, in a goroutine of its own while the data plane runs, and when a
// listener is added. It reads counters and sets atomics; no call waits for it.
type division struct {
	setting    sync.Mutex // held while the limit changes
	limit      atomic.Int64
	registered func(limit int64) int64
	budget     atomic.Int64 // the part of the limit that is for registered memory
	// connectors is what the connections of connectors had registered at the
	// last step: they take what they need, and the listeners have the rest.
	connectors atomic.Int64
	soon       chan struct{} // holds a token when there is a reason not to wait
	stop       context.CancelFunc
	done       sync.WaitGroup

	mu         sync.Mutex // held in a step; Dataplane.mu may be taken under it
	controller adaptive.Controller
	steps      uint
	conns      []*conn
	listeners  []*listener
	claims     []*adaptive.Conn
	groups     []*adaptive.Group
	pools      []adaptive.Pool
}

// init prepares the division. A limit out of range becomes the nearest in the
// range.
func (v *division) init(limit int64, registered func(int64) int64) {
	if limit == 0 {
		limit = DefaultMemory
	}
	if v.registered = registered; registered == nil {
		v.registered = func(limit int64) int64 { return limit }
	}
	v.setLimit(min(max(limit, MinMemory), MaxMemory))
	v.soon = make(chan struct{}, 1)
	v.stop = func() {}
}

func (v *division) setLimit(n int64) {
	v.setting.Lock()
	defer v.setting.Unlock()
	v.limit.Store(n)
	v.budget.Store(v.registered(n))
}

// start runs it until end.
func (v *division) start(d *Dataplane) {
	ctx, stop := context.WithCancel(context.Background())
	v.stop = stop
	v.done.Go(func() { v.run(ctx, d) })
}

func (v *division) end() {
	v.stop()
	v.done.Wait()
}

// wake makes the next step come at once.
func (v *division) wake() {
	select {
	case v.soon <- struct{}{}:
	default:
	}
}

func (v *division) run(ctx context.Context, d *Dataplane) {
	t := time.NewTicker(adaptive.Period)
	defer t.Stop()
	for split := true; ; {
		v.step(d, split)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			split = false
		case <-v.soon:
			split = true
		}
	}
}

// step divides once. With split it looks at the listeners' memory in any case.
func (v *division) step(d *Dataplane, split bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if split {
		v.steps = 0
	}
	v.look(d)
	v.grants()
	v.memory()
	v.forget()
}

// look lists what there is now.
func (v *division) look(d *Dataplane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.listeners {
		v.listeners = append(v.listeners, l)
	}
	var taken int64
	for _, c := range d.conns.all {
		if c.rc != nil { // in the other direction it is the peer that grants
			v.conns = append(v.conns, c)
		}
		if c.memory != nil {
			taken += c.memory().Registered
		}
	}
	v.connectors.Store(taken)
}

// room is what of the budget is beyond the least of n listeners and what
// connectors have registered, in bytes; negative when they have more.
func (v *division) room(n int) int64 {
	return v.budget.Load() - v.connectors.Load() - int64(n)*rpcrdma.MinMemoryLimit
}

// used says whether connectors have left nothing of the budget for another
// client of theirs.
func (v *division) used(listeners int) bool {
	return v.connectors.Load() > 0 && v.room(listeners) <= 0
}

// share is the part of the budget that is divided between the listeners.
func (v *division) share() int64 {
	n := len(v.listeners)
	return int64(n)*rpcrdma.MinMemoryLimit + max(v.room(n), 0)
}

// forget drops the lists' content, which may end before the next step.
func (v *division) forget() {
	clear(v.conns)
	clear(v.listeners)
	clear(v.claims)
	clear(v.groups)
	v.conns, v.listeners, v.claims, v.groups = v.conns[:0], v.listeners[:0], v.claims[:0], v.groups[:0]
}

// sharing is what the division knows of a connection, under its mu.
type sharing struct {
	conn     adaptive.Conn
	answered uint64 // at the last step
	load     rpcrdma.Load
}

// grants sets what connections with the adaptive policy are to grant. Those
// with the fixed one take what they take; the budget is what they leave.
func (v *division) grants() {
	budget := float64(max(v.room(len(v.listeners)), 0)) * rpcrdma.SmallShare
	for _, l := range v.listeners {
		l.observe()
		v.groups = append(v.groups, &l.sharing.group)
	}
	free := int64(budget)
	for _, c := range v.conns {
		free -= c.measure()
		if c.sharing.conn.Group != nil {
			v.claims = append(v.claims, &c.sharing.conn)
		}
	}
	v.controller.Step(v.claims, v.groups, free)
	for _, c := range v.conns {
		l, s := &c.l.sharing, &c.sharing
		c.rc.Aim(cmp.Or(s.conn.Target, credit.Initial)) // what the policy adaptive begins with
		l.need += int64(max(s.load.Limit, s.conn.Target))*creditBytes(&s.load) + spareBytes(&s.load)
		l.limits += s.load.Limit
	}
	for _, l := range v.listeners {
		l.credits.Store(int64(l.sharing.limits))
		l.delay.Store(int64(l.sharing.group.Delay))
	}
}

// measure takes the connection's load. It returns what the connection takes
// beyond what is divided: all that it has when its policy is fixed, else the
// receives that it has besides those of its credits.
func (c *conn) measure() (taken int64) {
	s, set := &c.sharing, c.settings.Load()
	s.load = c.rc.Load()
	answered := s.load.Answered - s.answered
	s.answered = s.load.Answered
	if set.CreditsPolicy != rpcrdma.CreditsAdaptive {
		s.conn = adaptive.Conn{}
		return int64(s.load.Limit)*creditBytes(&s.load) + spareBytes(&s.load)
	}
	s.conn.Group = &c.l.sharing.group
	s.conn.Weight, s.conn.Min, s.conn.Max = int(set.CreditsWeight), int(set.CreditsMin), int(set.CreditsMax)
	s.conn.Cost = creditBytes(&s.load)
	s.conn.Limit, s.conn.Peak, s.conn.Answered = s.load.Limit, s.load.Peak, int(answered)
	return spareBytes(&s.load)
}

// creditBytes is the memory that goes with a credit: a receive, and what a
// reply is made in. Large receives may be out of proportion; their share
// counts then.
func creditBytes(l *rpcrdma.Load) int64 {
	share := float64(l.ReceiveBytes) * (rpcrdma.SmallShare / rpcrdma.ReceiveShare)
	return max(int64(share)+1, l.ReceiveBytes+l.ReplyBytes)
}

// spareBytes is the memory of the receives beyond those for credits.
func spareBytes(l *rpcrdma.Load) int64 { return credit.Slack * l.ReceiveBytes }
