package fair

import "time"

const (
	// Floor is the least rate, in bytes per second, at which a holder gives back
	// what it has borrowed while others wait for it: 2 Mbit/s.
	Floor = 256 << 10
	// ShareFloor is the same for what a holder has of its share, while others wait
	// for theirs: 1 Mbit/s.
	ShareFloor = 128 << 10
	// Grace is how long a holder may stay below the floor.
	Grace = 5 * time.Second
)

// Pace compares what a holder has given back with a floor. Time counts only while
// others wait for what the holder has: a slow peer that is in nobody's way is never
// behind.
type Pace struct {
	last time.Time
	done uint64
	lag  int64 // bytes by which the holder is below the floor
}

// Step notes that done bytes were given back by now, in all. floor is the rate that
// is expected, 0 when nobody waits for what the holder has. piece is the most bytes
// that done may rise by at once. Step says whether the holder is behind.
func (p *Pace) Step(now time.Time, done uint64, floor, piece int64) (behind bool) {
	if !p.last.IsZero() {
		p.lag += int64(now.Sub(p.last).Seconds() * float64(floor))
	}
	p.lag = max(p.lag-int64(done-p.done), 0)
	p.last, p.done = now, done
	return floor > 0 && p.lag > piece+int64(Grace.Seconds()*float64(floor))
}
