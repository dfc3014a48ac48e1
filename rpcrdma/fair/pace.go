package fair

import "time"

const (
	// Floor is the least rate, in bytes per second, at which a holder gives back
	// what it has borrowed while others wait for it: 2 Mbit/s.
	Floor = 256 << 10
	// Grace is how long a holder may stay below the floor.
	Grace = 5 * time.Second
)

// Pace compares what a holder has given back with the floor. Time counts only
// while others wait for what the holder has borrowed: a slow peer that is in
// nobody's way is never behind.
type Pace struct {
	last time.Time
	done uint64
	lag  int64 // bytes that should have been given back, and were not
}

// Step notes that done bytes were given back by now, in all. owed says whether
// the holder has borrowed what others wait for. piece is the most bytes that done
// may rise by at once. Step says whether the holder is behind.
func (p *Pace) Step(now time.Time, done uint64, owed bool, piece int64) (behind bool) {
	if owed && !p.last.IsZero() {
		p.lag += int64(now.Sub(p.last).Seconds() * Floor)
	}
	p.lag = max(p.lag-int64(done-p.done), 0)
	p.last, p.done = now, done
	return owed && p.lag > piece+int64(Grace.Seconds()*Floor)
}
