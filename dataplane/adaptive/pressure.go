package adaptive

import "time"

// Group is a set of connections whose calls wait for the same service: those of a listener.
// The zero value is a group without pressure.
type Group struct {
	// Delay is the smoothed queueing delay of its calls.
	Delay time.Duration

	level   int64 // largest level of its connections; 0 means no limit
	trouble int64 // the level that was too high
	wait    int   // steps until the level may change
	calm    int   // consecutive steps with a delay below Low
	late    int   // steps for which limits were above targets after a cut
	good    int   // consecutive raises beyond the trouble

	// Sums over the connections of one step.
	used, useful    int64 // highest level in use above the minimum, and highest level with any effect
	limits, targets int64
}

// How the level changes, as fractions of it.
const (
	cut      = 8  // by 1/8, or by 1/4 far above High
	climb    = 16 // by 1/16, while the last trouble is far
	probe    = 64 // by 1/64 near the last trouble, and doubling after it
	maxClimb = 8  // by at most 1/8

	farAbove = 4        // times High
	maxLate  = 8 * Hold // steps to wait for limits to fall
)

// Observe records the calls that were started since the last step, and the time that all of
// them together waited.
func (g *Group) Observe(calls uint64, waited time.Duration) {
	mean := time.Duration(0)
	if calls > 0 {
		mean = waited / time.Duration(calls)
	}
	g.Delay = (g.Delay + mean) / 2
}

// begin clears the sums. add counts a connection.
func (g *Group) begin() { g.used, g.useful, g.limits, g.targets = 0, 0, 0, 0 }

func (g *Group) add(c *Conn) {
	weight := int64(c.Weight)
	g.useful = max(g.useful, (int64(c.Max)*unit+weight-1)/weight)
	if c.pinned() {
		return
	}
	g.limits += int64(c.Limit)
	g.targets += int64(c.Target)
	if c.Target > c.Min {
		g.used = max(g.used, (int64(c.Target)*unit+weight-1)/weight)
	}
}

// steer changes the level.
func (g *Group) steer() {
	if g.calm++; g.Delay >= Low {
		g.calm = 0
	}
	switch {
	case g.wait > 0:
		g.wait--
	case g.Delay > High:
		g.lower()
	case g.calm >= Calm && g.level > 0:
		g.raise()
	}
}

// lower reduces the level in use, once the last reduction has taken effect.
func (g *Group) lower() {
	if g.used == 0 {
		return // all connections are at the minimum
	}
	if 16*g.limits > 17*g.targets && g.late < maxLate {
		g.late++
		return
	}
	from := g.used
	if g.level > 0 {
		from = min(from, g.level)
	}
	part := from / cut
	if g.Delay > farAbove*High {
		part *= 2
	}
	g.trouble, g.good, g.late = from, 0, 0
	g.level = max(from-part, 1)
	g.wait = Hold
}

// raise raises the level: fast well below the last trouble, slowly near it, and faster
// again when there is no new trouble.
func (g *Group) raise() {
	step := g.level / climb
	if g.level >= g.trouble-g.trouble/cut {
		step = min(g.level/probe<<min(g.good/3, 8), g.level/maxClimb)
		g.good++
	}
	g.level += max(step, 1)
	g.wait, g.late, g.calm = Hold, 0, 0
	if g.level >= g.useful {
		g.level = 0
	}
}

// limit returns how many credits c may have at the group's level.
func (g *Group) limit(c *Conn) int {
	if g.level == 0 {
		return c.Max
	}
	return int(int64(c.Weight) * g.level / unit)
}
