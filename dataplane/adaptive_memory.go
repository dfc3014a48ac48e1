package dataplane

import (
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/adaptive"
	"github.com/rdmad/rdmad/rpcrdma"
)

// splitEvery is the number of ticks between two divisions of the listeners' memory, unless
// one is needed earlier.
const splitEvery = 10

// listenerSharing is the division's state of a listener; under its mu.
type listenerSharing struct {
	group         adaptive.Group
	calls, waited uint64 // at the last step
	need          int64  // bytes for the credits of its connections
	limits        int    // calls that its peers may rely on
	memory        int64  // limit in force, in bytes
}

// listenerGauges holds values that other goroutines read.
type listenerGauges struct {
	credits atomic.Int64
	delay   atomic.Int64 // ns
}

// observe reads the queueing delay since the last step, and resets the sums over the
// listener's connections.
func (l *Listener) observe() {
	s := &l.sharing
	calls, waited := l.calls.waits.Load(), l.calls.waited.Load()
	s.group.Observe(calls-s.calls, time.Duration(waited-s.waited))
	s.calls, s.waited = calls, waited
	s.need, s.limits = 0, 0
}

// memory divides the budget between the listeners. It does so every splitEvery ticks, and
// when grants need more memory than their listener has.
func (v *division) memory() {
	due, budget := v.unsplit >= splitEvery, v.share()
	v.pools = v.pools[:0]
	for _, l := range v.listeners {
		p := adaptive.Pool{
			Least: rpcrdma.MinMemoryLimit,
			Need:  rpcrdma.MinMemoryLimit + int64(float64(l.sharing.need)/rpcrdma.SmallShare),
		}
		due = due || min(p.Need, budget) > l.sharing.memory
		v.pools = append(v.pools, p)
	}
	if !due {
		return
	}
	v.unsplit = 0
	for i, l := range v.listeners {
		m := l.rl.Memory()
		v.pools[i].Registered = m.Registered
		l.sharing.memory = max(l.sharing.memory, m.Limit) // one more device can have raised it
	}
	adaptive.Split(v.pools, budget)
	v.lowerMemory()
	v.raiseMemory(budget)
}

// lowerMemory lowers the limits, as far as the memory in use allows.
func (v *division) lowerMemory() {
	for i, l := range v.listeners {
		if want := v.pools[i].Limit; want < l.sharing.memory {
			l.sharing.memory = l.rl.SetMemoryLimit(want)
		}
	}
}

// raiseMemory raises the limits, as far as the others leave memory of the budget.
func (v *division) raiseMemory(free int64) {
	for _, l := range v.listeners {
		free -= l.sharing.memory
	}
	for i, l := range v.listeners {
		if n := min(v.pools[i].Limit-l.sharing.memory, free); n > 0 {
			l.sharing.memory = l.rl.SetMemoryLimit(l.sharing.memory + n)
			free -= n
		}
	}
}
