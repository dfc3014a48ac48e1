package forward

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// How long nobody dials after a failure, doubling from the first to the last;
// half of it is random.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// gate keeps many clients from dialling an upstream that is gone. While the
// last dial succeeded, all may dial at once. After a failure one may, when the
// pause is over; the others learn at once why not, which is better than to
// wait: a kernel client that is rejected comes back later and later, one that
// is accepted and then disconnected comes back at once.
type gate struct {
	mu     sync.Mutex
	err    error // why the last dial failed; nil when it did not
	pause  time.Duration
	until  time.Time
	trying bool
}

// change is what a dial says of the upstream that was not known before.
type change uint8

const (
	unchanged change = iota
	lost
	found
)

// enter says why the upstream is not to be dialled now.
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

// abandon takes back enter: the dial was given up for other reasons.
func (g *gate) abandon() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
}

// leave notes how a dial ended.
func (g *gate) leave(now time.Time, err error) change {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.err
	g.err, g.trying = err, false
	switch {
	case err == nil:
		g.pause = 0
		if before != nil {
			return found
		}
		return unchanged
	case now.Before(g.until): // one of many that failed together
		return unchanged
	}
	g.pause = min(max(2*g.pause, firstPause), lastPause)
	g.until = now.Add(g.pause/2 + rand.N(g.pause/2))
	if before == nil {
		return lost
	}
	return unchanged
}
