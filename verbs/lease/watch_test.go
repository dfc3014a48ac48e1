package lease

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// holder counts how often it loses its right.
type holder struct {
	lease   Lease
	expired atomic.Int32
}

func (h *holder) Lease() *Lease { return &h.lease }
func (h *holder) Expired()      { h.expired.Add(1) }

func (h *holder) leave(w *Watch) uint64 {
	turn := h.lease.Leave()
	w.Add(h)
	return turn
}

// TestWatch: a holder that stays away loses its right once, and one that returns in time
// never does. The timer runs only while holders leave.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watch
		var h holder
		armed := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.armed
		}
		for range 3 {
			for range 100 {
				turn := h.leave(&w)
				time.Sleep(Patience / 3)
				if !h.lease.Return(turn) {
					t.Fatal("the right was lost in a third of the time")
				}
			}
			if !armed() || !h.lease.watched.Load() {
				t.Error("nobody watches")
			}
			time.Sleep(3 * Patience)
			if armed() || h.lease.watched.Load() || len(w.holders) != 0 {
				t.Error("the timer runs though nothing happens")
			}
		}
		turn := h.leave(&w)
		time.Sleep(3 * Patience)
		if h.expired.Load() != 1 || h.lease.Return(turn) || h.lease.Take() || h.lease.Away() {
			t.Errorf("a holder that stayed away lost its right %d times", h.expired.Load())
		}
		h.leave(&w)
		if !h.lease.Take() || h.lease.Take() {
			t.Error("not taken once")
		}
		h.leave(&w)
		w.Close()
		time.Sleep(3 * Patience)
		if h.expired.Load() != 1 {
			t.Error("a closed watch has acted")
		}
	})
}
