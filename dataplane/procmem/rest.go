package procmem

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// period is how often Rest looks at the process.
	period = 5 * time.Second
	// atRest is how much processor time a process at rest uses in a period at most.
	atRest = period / 20
	// restPeriods is how many periods in a row the process must be at rest. It is longer
	// than connections take to come to rest themselves, and to give up their memory.
	restPeriods = 3
	// worked is the least processor time between two collections: a process that does next
	// to nothing leaves no garbage worth a collection.
	worked = time.Second / 4
)

// Rest collects the garbage that a busy time left, once the process has come to rest, and
// gives the memory back to the kernel. Without that, the Go runtime would keep the garbage
// until twice as much is allocated, and large stacks of goroutines that now wait. Rest
// returns when ctx ends.
func (p *Process) Rest(ctx context.Context) {
	t := time.NewTicker(period)
	defer t.Stop()
	for r := new(rest); ; {
		select {
		case <-t.C:
			if r.due(processorTime()) {
				runtime.GC() // each collection halves the stacks that are too large
				debug.FreeOSMemory()
			}
		case <-ctx.Done():
			return
		}
	}
}

// rest decides when to collect.
type rest struct {
	last      time.Duration // processor time at the last look
	collected time.Duration // processor time before the last collection
	periods   int           // at rest in a row
}

// due is called once a period with the processor time that the process has used so far. It
// reports whether the process has worked since the last collection and is at rest now.
func (r *rest) due(used time.Duration) bool {
	if used-r.last > atRest {
		r.periods = 0
	} else {
		r.periods++
	}
	r.last = used
	if r.periods < restPeriods || used-r.collected < worked {
		return false
	}
	r.collected, r.periods = used, 0
	return true
}

// processorTime returns the processor time that the process has used, or 0 if the kernel
// does not tell.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
