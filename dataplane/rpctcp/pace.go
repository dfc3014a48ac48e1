package rpctcp

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// Floor is the least rate, in bytes per second, at which a peer is expected to
// send a record that it has begun and to take what it is sent.
const Floor = 32 << 10

// paceStep is how often a peer that keeps a goroutine waiting is looked at.
const paceStep = time.Second

// errSlow is that a peer moves less than the floor.
var errSlow = fmt.Errorf("too little progress: %w", os.ErrDeadlineExceeded)

// pace measures how far a peer is behind the floor with what it has to move:
// the time that it took, less the time that its bytes would have taken at the
// floor. A peer at or over the floor is never behind, a silent one is as far
// behind as it is silent. One goroutine moves bytes; late is anybody's.
type pace struct {
	patience time.Duration // how far behind a peer may be
	held     func() int    // bytes that wait for the peer; nil is none
	slow     func()        // called while the peer is fair.Grace behind, or more; nil is nothing

	since time.Time // when the peer was last looked at
	moved int       // bytes since
	late  atomic.Int64
}

// begin is a peer that has something to move from now on. It returns the time
// by which to look at it.
func (p *pace) begin() time.Time {
	p.since, p.moved = time.Now(), 0
	p.late.Store(0)
	return p.since.Add(min(paceStep, p.patience))
}

// end is a peer that has nothing to move.
func (p *pace) end() { p.late.Store(0) }

// goOn is a peer that has more to move. What it is behind stays.
func (p *pace) goOn() (time.Time, error) {
	if p.behind() == 0 {
		return p.begin(), nil
	}
	return p.look()
}

// behind is how far the peer was behind when it was last looked at.
func (p *pace) behind() time.Duration { return time.Duration(p.late.Load()) }

// floor is Floor, or more if that does not bring back within patience what
// waits for the peer.
func (p *pace) floor() float64 {
	if p.held == nil {
		return Floor
	}
	return max(Floor, float64(p.held())/p.patience.Seconds())
}

// look looks at the peer. It returns the time by which to look again, or an
// error when the peer is further behind than it may be.
func (p *pace) look() (time.Time, error) {
	now := time.Now()
	late := p.behind() + now.Sub(p.since) - time.Duration(float64(p.moved)/p.floor()*float64(time.Second))
	late = max(late, 0)
	p.late.Store(int64(late))
	p.since, p.moved = now, 0
	if late >= p.patience {
		return time.Time{}, fmt.Errorf("%w after %v", errSlow, p.patience)
	}
	if p.slow != nil && late >= fair.Grace {
		p.slow()
	}
	return now.Add(min(paceStep, p.patience-late)), nil
}

// isDeadline says whether an operation only took until its deadline.
func isDeadline(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
