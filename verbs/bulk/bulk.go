package bulk

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Large is the largest number of bytes that need no place. Calls of 64 KiB, which many
// clients make, are below it, and full batches of softiwarp are above it.
const Large = 96 << 10

const (
	// keep is how long a processor is kept free after a small message.
	keep = time.Second
	// stretch is for how long a place moves data before its thread lets other threads of
	// the machine go first.
	stretch = 500 * time.Microsecond
)

// process is the gate of this process.
var process = newGate(runtime.GOMAXPROCS(0), yield)

// Enter waits for a place to move n bytes, and takes it. Without a place, because n is not
// above Large, it returns at once. The caller passes what it returns to Leave.
func Enter(n int) (placed bool) {
	if n <= Large {
		return false
	}
	process.enter()
	return true
}

// Leave gives back a place, if the caller has one.
func Leave(placed bool) {
	if placed {
		process.leave()
	}
}

// Small reports that a small message is sent. If nobody moves much, that costs one atomic
// read.
func Small() { process.note() }

// Places returns how many places there are at most.
func Places() int { return process.processors }

// Usage returns how many goroutines have a place, and how many wait for one.
func Usage() (inside, waiting int) {
	process.mu.Lock()
	defer process.mu.Unlock()
	return process.inside, process.waiting
}

// gate has the places.
type gate struct {
	processors int
	yield      func()
	pass       chan struct{} // has a token for each waiting goroutine that got a place
	busy       atomic.Bool   // somebody has a place
	small      atomic.Bool   // a small message was sent since the last look at this

	mu      sync.Mutex
	inside  int
	waiting int
	until   time.Time // a processor is kept free until then
	yielded time.Time // when a goroutine last let others go first
}

func newGate(processors int, yield func()) *gate {
	return &gate{processors: processors, yield: yield, pass: make(chan struct{}, 64)}
}

// note records a small message. It takes no lock.
func (g *gate) note() {
	if g.busy.Load() && !g.small.Load() {
		g.small.Store(true)
	}
}

func (g *gate) enter() {
	g.mu.Lock()
	if g.waiting == 0 && g.inside < g.most() {
		g.inside++
		g.busy.Store(true)
		g.mu.Unlock()
		return
	}
	g.waiting++
	g.admit()
	<-g.pass
}

func (g *gate) leave() {
	g.mu.Lock()
	if now := time.Now(); g.mixed(now) && now.Sub(g.yielded) >= stretch/time.Duration(g.inside) {
		g.yielded = now
		g.mu.Unlock()
		g.yield() // the next one inside would only take the processor that others wait for
		g.mu.Lock()
	}
	g.inside--
	g.admit()
}

// admit gives free places to goroutines that wait. g.mu is held on entry, and released on
// return.
func (g *gate) admit() {
	n := max(min(g.waiting, g.most()-g.inside), 0)
	g.waiting -= n
	g.inside += n
	g.busy.Store(g.inside > 0)
	g.mu.Unlock()
	for range n {
		g.pass <- struct{}{}
	}
}

// most returns the number of places at this moment. g.mu is held.
func (g *gate) most() int {
	if g.mixed(time.Now()) {
		return max(g.processors-1, 1)
	}
	return g.processors
}

// mixed reports whether small messages are sent, too. g.mu is held.
func (g *gate) mixed(now time.Time) bool {
	if g.small.Load() {
		g.small.Store(false)
		g.until = now.Add(keep)
	}
	return now.Before(g.until)
}
