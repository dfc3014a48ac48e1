package forward

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// The pause between dials after a failure. It doubles from the first to the last value, and
// half of it is random.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// gate keeps many clients from dialling an upstream that is gone. After a successful dial,
// all may dial at once. After a failure, only one may dial when the pause is over, and the
// others fail at once. That is better than to wait: a Linux client that is rejected retries
// with growing pauses, but one that is accepted and then disconnected retries at once.
type gate struct {
	mu     sync.Mutex
	err    error // why the last dial failed; nil when it did not
	pause  time.Duration
	until  time.Time
	trying bool
}

// enter returns an error if the upstream must not be dialled now.
func (g *gate) enter(now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		return nil
	}
	if g.trying || now.Before(g.until) {
		return fmt.Errorf("not tried again yet after: %w", g.err)
	}
	g.trying = true
	return nil
}

// abandon undoes enter: the dial failed for reasons that are not the upstream's.
func (g *gate) abandon() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
}

// leave records the result of a dial. changed means that the upstream could be reached before
// and can't be now, or the other way round.
func (g *gate) leave(now time.Time, err error) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed = (err == nil) != (g.err == nil)
	g.err, g.trying = err, false
	switch {
	case err == nil:
		g.pause, g.until = 0, time.Time{}
	case now.Before(g.until): // one of many that failed together
		return false
	default:
		g.pause = min(max(2*g.pause, firstPause), lastPause)
		g.until = now.Add(g.pause/2 + rand.N(g.pause/2))
	}
	return changed
}
