package adaptive

import "github.com/rdmad/rdmad/rpcrdma/credit"

// Conn is a connection with the adaptive policy. The caller sets the inputs before each
// step and reads Target after it.
type Conn struct {
	Group *Group
	// Weight, Min and Max are the current settings.
	Weight, Min, Max int
	// Cost is the registered memory for each credit, in bytes. Rest is the part of it that an
	// idle connection holds: the receive.
	Cost, Rest int64
	// Limit is the number of calls that the peer may rely on now.
	Limit int
	// Peak is the largest number of calls in progress at once, and Answered the number of
	// calls answered, both since the last step.
	Peak, Answered int

	// Target is the number of credits to grant.
	Target int

	demand int
	below  int // consecutive steps with little use
	used   int // most calls in progress in these steps
	silent int // consecutive steps without an answer
}

// bounds enforces 1 <= Min <= Max.
func (c *Conn) bounds() {
	c.Weight = max(c.Weight, 1)
	c.Max = max(c.Max, 1)
	c.Min = min(max(c.Min, 1), c.Max)
}

// rest returns how many credits an idle connection gets, if there is memory: what every
// connection begins with.
func (c *Conn) rest() int { return min(max(c.Min, credit.Initial), c.Max) }

// held returns how many credits the peer relies on, or was granted.
func (c *Conn) held() int { return max(c.Limit, c.Target) }

// ask computes the demand from the use.
func (c *Conn) ask() {
	if c.Target == 0 { // new
		c.Target = c.Limit
	}
	c.hear()
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

// hear counts the steps without an answer.
func (c *Conn) hear() {
	if c.silent++; c.Answered > 0 {
		c.silent = 0
	}
}

// Undivided is for a connection without the adaptive policy, in place of Step. It returns the
// registered memory of its credits, in bytes.
func (c *Conn) Undivided() int64 {
	*c = Conn{Cost: c.Cost, Rest: c.Rest, Limit: c.Limit, Peak: c.Peak, Answered: c.Answered, silent: c.silent}
	c.hear()
	return c.Memory(c.Limit)
}

// Memory returns the registered memory of n credits, in bytes. Without this distinction many
// idle connections would leave the busy ones one credit each, while most memory is unused.
func (c *Conn) Memory(n int) int64 {
	if c.pinned() && c.Peak == 0 {
		return int64(n) * c.Rest
	}
	return int64(n) * c.Cost
}

// pinned reports whether the connection keeps its grant, because no answer can reduce it.
func (c *Conn) pinned() bool { return c.silent >= Hold }
