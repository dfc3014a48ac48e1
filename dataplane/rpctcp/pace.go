package rpctcp

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// Floor is the lowest rate, in bytes per second, at which a peer must send a record that it
// has begun, and read its replies.
const Floor = 32 << 10

// paceStep is the time between two checks of a peer that a goroutine waits for.
const paceStep = time.Second

// errSlow means that a peer is further behind the floor than it may be.
var errSlow = fmt.Errorf("too little progress: %w", os.ErrDeadlineExceeded)

// pace measures how far a peer is behind the floor with the bytes that it has to
// send or read: the time that it took, less the time that its bytes would have
// taken at the floor. A peer at or above the floor is never behind. A silent peer
// is behind by the time of its silence. One goroutine moves bytes; any goroutine
// may read late.
type pace struct {
	patience time.Duration // how far behind the peer may be
	held     func() int    // bytes that wait for the peer; nil means none
	slow     func()        // called while the peer is fair.Grace behind or more; may be nil

	since time.Time // when the peer was last checked
	moved int       // bytes since then
	late  atomic.Int64
}

// begin starts timing the peer: it now has bytes to move. It returns the time of the first
// check.
func (p *pace) begin() time.Time {
	p.since, p.moved = time.Now(), 0
	p.late.Store(0)
	return p.since.Add(min(paceStep, p.patience))
}

// end stops timing the peer: it has nothing to move.
func (p *pace) end() { p.late.Store(0) }

// goOn continues timing a peer that has more bytes to move. It stays as far behind as it
// was.
func (p *pace) goOn() (time.Time, error) {
	if p.behind() == 0 {
		return p.begin(), nil
	}
	return p.look()
}

// behind returns how far the peer was behind at the last check.
func (p *pace) behind() time.Duration { return time.Duration(p.late.Load()) }

// floor returns Floor, or the higher rate at which the peer moves all bytes that wait for
// it within patience.
func (p *pace) floor() float64 {
	if p.held == nil {
		return Floor
	}
	return max(Floor, float64(p.held())/p.patience.Seconds())
}

// look updates how far the peer is behind. It returns the time of the next check, or an
// error if the peer is too far behind.
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

// isDeadline reports whether an operation failed because its deadline had passed.
func isDeadline(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
