package fair

import "time"

const (
	// Floor is the lowest rate, in bytes per second, at which a holder may give back what
	// it has borrowed while others wait for it: 2 Mbit/s.
	Floor = 256 << 10
	// ShareFloor is the lowest rate for what a holder has of its share, while others wait
	// for theirs: 1 Mbit/s.
	ShareFloor = 128 << 10
	// Grace is how long a holder may stay below the floor.
	Grace = 5 * time.Second
)

// Pace compares what a holder has given back with a floor. Time counts only while others
// wait for what the holder has, so a slow peer that delays nobody is never behind.
type Pace struct {
	last time.Time
	done uint64
	lag  int64 // bytes by which the holder is below the floor
}

// Step records that the holder has given back done bytes in total by now. floor is the
// required rate, or 0 if nobody waits for what the holder has. piece is the largest step in
// which done may rise. Step reports whether the holder is behind.
func (p *Pace) Step(now time.Time, done uint64, floor, piece int64) (behind bool) {
	if !p.last.IsZero() {
		p.lag += int64(now.Sub(p.last).Seconds() * float64(floor))
	}
	p.lag = max(p.lag-int64(done-p.done), 0)
	p.last, p.done = now, done
	return floor > 0 && p.lag > piece+int64(Grace.Seconds()*float64(floor))
}
