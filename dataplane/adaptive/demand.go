package adaptive

import "github.com/rdmad/rdmad/rpcrdma/credit"

// Conn is a connection with the adaptive policy. Whoever steps the controller
// sets the inputs before each step and reads Target after it.
type Conn struct {
	Group *Group
	// Weight, Min and Max are the settings in force.
	Weight, Min, Max int
	// Cost is the registered memory that goes with each credit, in bytes.
	Cost int64
	// Limit is the number of calls that the peer may count on now.
	Limit int
	// Peak is the most calls in progress at once, Answered the number of calls
	// answered, both since the last step.
	Peak, Answered int

	// Target is what to grant.
	Target int

	demand int
	below  int // steps in a row with little use
	used   int // most calls in progress in these
	silent int // steps in a row without an answer
}

// bounds keeps settings sane: 1 <= Min <= Max.
func (c *Conn) bounds() {
	c.Weight = max(c.Weight, 1)
	c.Max = max(c.Max, 1)
	c.Min = min(max(c.Min, 1), c.Max)
}

// rest is what a connection may have although it does nothing, as far as there
// is memory: what every connection begins with.
func (c *Conn) rest() int { return min(max(c.Min, credit.Initial), c.Max) }

// held is what the peer counts on, or was granted when the limit was
// looked at.
func (c *Conn) held() int { return max(c.Limit, c.Target) }

// ask works out the demand from what was used.
func (c *Conn) ask() {
	if c.Target == 0 { // new
		c.Target = c.Limit
	}
	if c.silent++; c.Answered > 0 {
		c.silent = 0
	}
	switch {
	case 4*c.Peak >= 3*c.Target:
		c.demand = max(c.demand, 2*c.Peak)
		c.below, c.used = 0, 0
	case 4*c.Peak < c.Target:
		c.used = max(c.used, c.Peak)
		if c.below++; c.below >= Patience {
			c.demand = 2 * c.used
			c.below, c.used = 0, 0
		}
	default:
		c.below, c.used = 0, 0
	}
	c.demand = min(max(c.demand, c.rest()), c.Max)
}

// pinned says that the connection keeps what it was granted, because no answer
// can take it back.
func (c *Conn) pinned() bool { return c.silent >= Hold }
