package dataplane

import (
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/adaptive"
	"github.com/rdmad/rdmad/rpcrdma"
)

// splitEvery is the number of steps between two looks at the listeners' memory
// while nothing calls for one.
const splitEvery = 10

// listenerSharing is what the division knows of a listener, under its mu.
type listenerSharing struct {
	group         adaptive.Group
	calls, waited uint64 // at the last step
	need          int64  // bytes that the credits of its connections take
	limits        int    // calls that its peers may count on
	memory        int64  // limit in force, in bytes
}

// listenerGauges is what others may read.
type listenerGauges struct {
	credits atomic.Int64
	delay   atomic.Int64 // ns
}

// observe takes the queueing delay since the last step, and begins to add up
// what connections take.
func (l *listener) observe() {
	s := &l.sharing
	calls, waited := l.handler.waits.Load(), l.handler.waited.Load()
	s.group.Observe(calls-s.calls, time.Duration(waited-s.waited))
	s.calls, s.waited = calls, waited
	s.need, s.limits = 0, 0
}

// memory splits the budget between the listeners, now and then or when grants
// need more than their listener has.
func (v *division) memory() {
	due, budget := v.steps%splitEvery == 0, v.share()
	v.steps++
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
	for i, l := range v.listeners {
		v.pools[i].Registered = l.rl.Memory().Registered
	}
	adaptive.Split(v.pools, budget)
	v.lowerMemory()
	v.raiseMemory(budget)
}

// lowerMemory lowers limits, as far as the listeners can.
func (v *division) lowerMemory() {
	for i, l := range v.listeners {
		if want := v.pools[i].Limit; want < l.sharing.memory {
			l.sharing.memory = l.rl.SetMemoryLimit(want)
		}
	}
}

// raiseMemory raises limits, into what the others have left of the budget.
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
