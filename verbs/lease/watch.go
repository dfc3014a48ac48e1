package lease

import (
	"sync"
	"time"
)

// Patience is how long a holder may be away before it may lose its right. It loses the
// right before twice that time. A check every millisecond would cost more than leases
// save.
const Patience = 10 * time.Millisecond

// Holder has a lease.
type Holder interface {
	Lease() *Lease
	// Expired is called when the holder was away for too long. The callee then holds the
	// right, and may release it. It must not block.
	Expired()
}

// Watch takes the rights of holders that stay away. One timer serves all holders and runs
// while any of them leave and return. A timer for each holder would wake up threads. The
// zero value is ready to use.
type Watch struct {
	mu      sync.Mutex
	holders []watched
	timer   *time.Timer
	armed   bool
	closed  bool
}

type watched struct {
	Holder
	turn uint64 // the holder's turn at the last check
}

// Add makes the watch check a holder that has left.
func (w *Watch) Add(h Holder) {
	if h.Lease().watched.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || h.Lease().watched.Swap(true) {
		return
	}
	w.holders = append(w.holders, watched{h, h.Lease().turn.Load()})
	w.armLocked()
}

func (w *Watch) armLocked() {
	switch {
	case w.armed:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(Patience, w.look)
	default:
		w.timer.Reset(Patience)
	}
	w.armed = true
}

// look takes the rights of holders that have been away since the last check. It forgets
// holders that have been present since then, or have released their right.
func (w *Watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	if w.closed {
		return
	}
	kept := w.holders[:0]
	for _, x := range w.holders {
		l := x.Lease()
		turn := l.turn.Load()
		switch {
		case turn != x.turn:
			kept = append(kept, watched{x.Holder, turn})
		case turn&1 != 0 && !l.free.Load():
			if l.Return(turn) {
				x.Expired()
			}
			kept = append(kept, watched{x.Holder, turn + 1})
		case x.rests():
		default:
			kept = append(kept, x)
		}
	}
	clear(w.holders[len(kept):])
	if w.holders = kept; len(kept) > 0 {
		w.armLocked()
	}
}

// rests stops watching the holder, which calls Add when it next leaves. It returns false
// if the holder has left already.
func (x *watched) rests() bool {
	l := x.Lease()
	l.watched.Store(false)
	return l.turn.Load() == x.turn || l.watched.Swap(true)
}

// Close ends the watch.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	clear(w.holders)
	w.holders = nil
	if w.timer != nil {
		w.timer.Stop()
	}
}
