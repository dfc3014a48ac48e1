package credit

// window is the number of answers over which Adaptive looks at the load.
const window = 64

// Adaptive chooses a grant by load: twice the most calls that were in flight
// during the last answers, so that a busy peer may double what it has in
// flight each time round and an idle one falls back to the least.
type Adaptive struct {
	peak, last int
	answers    int
}

// Observe counts an answer given while held calls were in flight, its own
// included.
func (a *Adaptive) Observe(held int) {
	a.peak = max(a.peak, held)
	if a.answers++; a.answers == window {
		a.last, a.peak, a.answers = a.peak, 0, 0
	}
}

// Grant is the grant to aim for, between least and most.
func (a *Adaptive) Grant(least, most int) int {
	return max(min(max(2*max(a.peak, a.last), least), most), 1)
}
