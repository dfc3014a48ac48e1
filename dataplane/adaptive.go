package dataplane

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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

// NoMemoryError means that there is no memory for another listener or connector.
type NoMemoryError struct {
	Need, Left int64  // bytes; 0 for a connector, which takes memory as clients come
	Listeners  int    // which need that together; 0 for a single one beside others
	From       string // what bounds Left for Listeners; "" is limits.memory
}

func (e *NoMemoryError) Error() string {
	if e.Listeners > 0 && e.From != "" {
		return fmt.Sprintf("%d listeners need %d KiB of registered memory, and %s leaves %d KiB, enough for %d; raise that limit, or have fewer listeners",
			e.Listeners, e.Need>>10, e.From, e.Left>>10, e.Left/rpcrdma.MinMemoryLimit)
	}
	if e.Listeners > 0 {
		return fmt.Sprintf("%d listeners need %d KiB of registered memory, and limits.memory gives %d KiB, enough for %d; raise limits.memory, or have fewer listeners",
			e.Listeners, e.Need>>10, e.Left>>10, e.Left/rpcrdma.MinMemoryLimit)
	}
	if e.Need == 0 {
		return "no registered memory is left for the first client of a connector; raise limits.memory, or try again when there are fewer connections"
	}
	return fmt.Sprintf("a listener needs %d KiB of registered memory, and the others leave %d KiB; raise limits.memory, or try again when there are fewer connections", e.Need>>10, e.Left>>10)
}

// CheckListeners returns a *NoMemoryError if listeners need more than a budget of registered memory, in
// bytes, at the least.
func CheckListeners(listeners int, budget int64) error {
	need := int64(listeners) * rpcrdma.MinMemoryLimit
	if need <= budget {
		return nil
	}
	return &NoMemoryError{Need: need, Left: budget, Listeners: listeners}
}

// Memory returns the memory limit, in bytes.
func (d *Dataplane) Memory() int64 { return d.division.limit.Load() }

// SetMemory changes the memory limit, in bytes; 0 means the default. A limit out of range
// becomes the nearest valid one. Memory in use stays in use. Grants become smaller, and
// listeners give back memory that they no longer need.
func (d *Dataplane) SetMemory(n int64) {
	d.division.setLimit(n)
	d.division.ask()
}

// division divides credits and registered memory between connections and listeners. It runs
// in its own goroutine while the data plane runs, and when a listener is added. It reads
// counters and sets atomics, so no call waits for it.
type division struct {
	setting    sync.Mutex // held while the limit changes
	limit      atomic.Int64
	registered func(limit int64) int64
	budget     atomic.Int64 // the part of the limit that is for registered memory
	// connectors is the memory that the connections of connectors had registered at the
	// last step. Connectors take what they need, and the listeners share the rest.
	connectors atomic.Int64
	asked      atomic.Bool // the next tick must divide the listeners' memory
	stop       context.CancelFunc
	done       sync.WaitGroup

	mu         sync.Mutex // held during a step; Dataplane.mu may be taken while it is held
	controller adaptive.Controller
	unsplit    int   // ticks since the listeners' memory was divided
	seen       sight // at the last step
	conns      []*conn
	listeners  []*Listener
	claims     []*adaptive.Conn
	groups     []*adaptive.Group
	pools      []adaptive.Pool
}

// init prepares the division.
func (v *division) init(limit int64, registered func(int64) int64) {
	if v.registered = registered; registered == nil {
		v.registered = func(limit int64) int64 { return limit }
	}
	v.setLimit(limit)
	v.stop = func() {}
}

func (v *division) setLimit(n int64) {
	n = min(max(cmp.Or(n, DefaultMemory), MinMemory), MaxMemory)
	v.setting.Lock()
	defer v.setting.Unlock()
	v.limit.Store(n)
	v.budget.Store(v.registered(n))
}

// start runs the division until end.
func (v *division) start(d *Dataplane) {
	ctx, stop := context.WithCancel(context.Background())
	v.stop = stop
	v.done.Go(func() { v.run(ctx, d) })
}

func (v *division) end() {
	v.stop()
	v.done.Wait()
}

// ask makes the next tick divide the listeners' memory. Peers can cause it, and the times of
// the policy are counted in steps, so there is no step between two ticks.
func (v *division) ask() { v.asked.Store(true) }

func (v *division) run(ctx context.Context, d *Dataplane) {
	t := time.NewTicker(adaptive.Period)
	defer t.Stop()
	v.step(d, true)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if asked := v.asked.Swap(false); asked || !v.rests(d) {
				v.step(d, asked)
			}
		}
	}
}

// sight is what a step saw of the data plane.
type sight struct {
	changes, revision uint64 // of the registry, and of the settings
	// divides means that the division has something to decide at each tick: connections with the
	// adaptive policy, or of connectors.
	divides bool
}

// few is the part of the connections that may come and go without a step: an eighth.
const few = 8

// rests reports whether a tick needs no step. While all connections have the fixed policy and
// few come or go, the steps that divide the listeners' memory are enough. Otherwise thousands
// of connections that seldom call, or a client that connects again and again beside them, would
// cost more processor time here than for their calls' service.
func (v *division) rests(d *Dataplane) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	changes := d.conns.changes - v.seen.changes
	if v.unsplit+1 >= splitEvery || v.seen.divides || v.seen.revision != d.revision || changes > uint64(len(d.conns.all)/few) {
		return false
	}
	v.unsplit++
	for _, l := range d.listeners {
		l.observe()
		l.delay.Store(int64(l.sharing.group.Delay))
	}
	return true
}

// step divides once. With split it also divides the listeners' memory, even if that is not
// due. It returns the part of the budget, in bytes, that neither listeners nor connectors have.
func (v *division) step(d *Dataplane, split bool) (free int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unsplit++; split {
		v.unsplit = splitEvery
	}
	v.look(d)
	v.grants()
	v.memory()
	free = v.budget.Load() - v.connectors.Load()
	for _, l := range v.listeners {
		free -= l.sharing.memory
	}
	v.forget()
	return free
}

// setAside makes the others leave a new listener the memory that it needs at least. The error is a
// *NoMemoryError, or ErrShutdown.
func (v *division) setAside(d *Dataplane, l *Listener) error {
	d.mu.Lock()
	d.prepared[l] = struct{}{}
	stopping := d.stopping
	d.mu.Unlock()
	if stopping {
		return ErrShutdown
	}
	over := -v.step(d, true)
	if over <= 0 {
		return nil
	}
	return &NoMemoryError{Need: rpcrdma.MinMemoryLimit, Left: max(rpcrdma.MinMemoryLimit-over, 0)}
}

// look lists the current listeners and connections.
func (v *division) look(d *Dataplane) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.listeners {
		v.listeners = append(v.listeners, l)
	}
	for _, others := range []map[*Listener]struct{}{d.prepared, d.leaving} {
		v.listeners = slices.AppendSeq(v.listeners, maps.Keys(others))
	}
	v.seen = sight{changes: d.conns.changes, revision: d.revision}
	var taken int64
	for _, c := range d.conns.all {
		if c.rc != nil { // on a connector's connection the peer grants
			v.conns = append(v.conns, c)
		}
		if c.memory != nil {
			taken += c.memory().Registered
			v.seen.divides = true
		}
	}
	v.connectors.Store(taken)
}

// room returns the part of the budget, in bytes, beyond the minimum of n listeners and the
// memory that connectors have registered. It is negative when they have more.
func (v *division) room(n int) int64 {
	return v.budget.Load() - v.connectors.Load() - int64(n)*rpcrdma.MinMemoryLimit
}

// used reports whether connectors have left no memory of the budget for another client.
func (v *division) used(listeners int) bool {
	return v.connectors.Load() > 0 && v.room(listeners) <= 0
}

// leaves returns a *NoMemoryError if the first client of a new connector would be refused.
// Before Start nothing is in use.
func (v *division) leaves(d *Dataplane) error {
	v.step(d, false)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started && v.used(len(d.listeners)+len(d.prepared)+len(d.leaving)) {
		return new(NoMemoryError)
	}
	return nil
}

// share returns the part of the budget that is divided between the listeners, in bytes.
func (v *division) share() int64 {
	n := len(v.listeners)
	return int64(n)*rpcrdma.MinMemoryLimit + max(v.room(n), 0)
}

// forget drops the content of the lists, because it may end before the next step.
func (v *division) forget() {
	clear(v.conns)
	clear(v.listeners)
	clear(v.claims)
	clear(v.groups)
	v.conns, v.listeners, v.claims, v.groups = v.conns[:0], v.listeners[:0], v.claims[:0], v.groups[:0]
}

// sharing is the division's state of a connection; under its mu.
type sharing struct {
	conn     adaptive.Conn
	answered uint64 // at the last step
	load     rpcrdma.Load
}

// grants sets the grants of connections with the adaptive policy. Connections with the fixed
// policy use what they need, and the rest of the budget is divided.
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
			v.seen.divides = true
		}
	}
	v.controller.Step(v.claims, v.groups, free)
	for _, c := range v.conns {
		l, s := &c.l.sharing, &c.sharing
		c.rc.Aim(cmp.Or(s.conn.Target, credit.Initial)) // the initial grant of the adaptive policy
		l.need += s.conn.Memory(max(s.load.Limit, s.conn.Target)) + spareBytes(&s.load)
		l.limits += s.load.Limit
	}
	for _, l := range v.listeners {
		l.credits.Store(int64(l.sharing.limits))
		l.delay.Store(int64(l.sharing.group.Delay))
	}
}

// measure reads the connection's load. It returns the connection's memory, in bytes, that is
// not divided. With the fixed policy that is all its memory, otherwise the receives in
// addition to those for its credits.
func (c *conn) measure() (taken int64) {
	s, set := &c.sharing, c.settings.Load()
	s.load = c.rc.Load()
	answered := s.load.Answered - s.answered
	s.answered = s.load.Answered
	s.conn.Cost, s.conn.Rest = creditBytes(&s.load), restBytes(&s.load)
	s.conn.Limit, s.conn.Peak, s.conn.Answered = s.load.Limit, s.load.Peak, int(answered)
	if set.CreditsPolicy != rpcrdma.CreditsAdaptive {
		return s.conn.Undivided() + spareBytes(&s.load)
	}
	s.conn.Group = &c.l.sharing.group
	s.conn.Weight, s.conn.Min, s.conn.Max = int(set.CreditsWeight), int(set.CreditsMin), int(set.CreditsMax)
	return spareBytes(&s.load)
}

// creditBytes returns the memory of one credit in bytes: a receive, and the buffer in which
// a reply is made. If receives are large in proportion, their share of the memory decides.
func creditBytes(l *rpcrdma.Load) int64 { return max(restBytes(l), l.ReceiveBytes+l.ReplyBytes) }

// restBytes returns the memory of one credit that no call uses, in bytes: the receive's part of
// the memory for receives.
func restBytes(l *rpcrdma.Load) int64 {
	return int64(float64(l.ReceiveBytes)*(rpcrdma.SmallShare/rpcrdma.ReceiveShare)) + 1
}

// spareBytes returns the memory of the receives in addition to those for credits, in bytes.
func spareBytes(l *rpcrdma.Load) int64 { return credit.Slack * l.ReceiveBytes }
