package lease

import "time"

const (
	// Brisk is the longest time of a call after which leaders continue to serve calls.
	Brisk = 2 * time.Millisecond
	// Bearable is the longest time that a call may wait for a call served by a leader.
	Bearable = 200 * time.Microsecond
	// LeastRest is how many calls go to workers after a leader's call took longer.
	LeastRest = 16
	// MostRest is the maximum after several such calls.
	MostRest = 4096
)

// Lead is the right of a leader: it reads a connection, or polls its completion queue, and
// serves calls itself while they are short (docs/adr/0014). Only the leader uses the fields
// besides the lease.
type Lead struct {
	Lease       // the leader is away while it serves a call
	Rest    int // how many of the next calls go to workers
	Penalty int // the last value set in Rest
}

// Judge decides who serves the next calls: again the leader if the last ones were short.
func (l *Lead) Judge(short bool) {
	if short {
		l.Penalty = 0
	} else {
		l.Tire()
	}
}

// Tire makes the next calls go to workers, for longer each time.
func (l *Lead) Tire() {
	l.Penalty = min(max(2*l.Penalty, LeastRest), MostRest)
	l.Rest = l.Penalty
}
