// Package lease has rights that one goroutine holds at a time and loses when it is
// away for too long: the right to read a connection, or to poll its completion queue.
//
// A holder is present while it does the work that the right is for. It is away while it
// does something else and intends to come back. Leaving and returning cost two atomic
// operations. One Watch serves many leases: it takes the right from holders that stay away.
package lease

import "sync/atomic"

// Lease is a right. Initially its holder is present.
type Lease struct {
	turn    atomic.Uint64 // odd while the holder is away
	watched atomic.Bool   // a Watch has the holder, or is about to
	free    atomic.Bool   // the holder has left for good
}

// Leave marks the holder as away. Watch.Add must follow. The holder may lose the right
// before Leave returns.
func (l *Lease) Leave() (turn uint64) { return l.turn.Add(1) }

// Release marks the holder as away for good. No Watch need take the right: somebody else
// takes it when there is something to do. The caller may lose the right before Release
// returns.
func (l *Lease) Release() {
	l.free.Store(true)
	l.turn.Add(1)
}

// Return marks the holder that left with turn as present. It returns false when the holder
// has lost the right.
func (l *Lease) Return(turn uint64) bool { return l.turn.CompareAndSwap(turn, turn+1) }

// Take takes the right from a holder that is away. It returns false when the holder is
// present.
func (l *Lease) Take() bool {
	turn := l.turn.Load()
	if turn&1 == 0 || !l.turn.CompareAndSwap(turn, turn+1) {
		return false
	}
	if l.free.Load() {
		l.free.Store(false)
	}
	return true
}

// Away reports whether the holder is away.
func (l *Lease) Away() bool { return l.turn.Load()&1 != 0 }
