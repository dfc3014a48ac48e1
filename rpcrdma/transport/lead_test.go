package transport

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch: a leader that serves one call for too long loses the lead; the
// timer runs while calls are served, and no longer.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watch
		l := &link{}
		serves := func() uint64 {
			turn := l.lead.turn.Add(1)
			if !l.lead.watched.Load() {
				w.add(l)
			}
			return turn
		}
		armed := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.armed
		}
		for range 3 {
			for range 100 { // short calls
				serves()
				time.Sleep(patience / 3)
				l.lead.turn.Add(1)
			}
			if !armed() || !l.lead.watched.Load() {
				t.Error("nobody watches")
			}
			time.Sleep(3 * patience)
			if armed() || l.lead.watched.Load() || len(w.links) != 0 {
				t.Error("the timer runs though nothing happens")
			}
		}
		serves()
		w.close()
		time.Sleep(3 * patience)
		if l.lead.turn.Load()&1 == 0 {
			t.Error("a closed watch has acted")
		}
	})
}
