package credit

// window is the number of answers over which Adaptive looks at the load.
const window = 64

// Adaptive chooses a grant for one connection. Whoever shares memory between
// many connections says what to aim for. Until then the load decides: twice
// the most calls that were in flight during the last answers, so that a busy
// peer may double what it has in flight each time round and an idle one falls
// back to the least.
type Adaptive struct {
	peak, last int
	answers    int
	busiest    int // most calls in flight since TakePeak
	aim        int // 0: nobody said
}

// Observe counts an answer given while held calls were in flight, its own
// included.
func (a *Adaptive) Observe(held int) {
	a.peak = max(a.peak, held)
	a.busiest = max(a.busiest, held)
	if a.answers++; a.answers == window {
		a.last, a.peak, a.answers = a.peak, 0, 0
	}
}

// Aim says what to grant from now on; 0 leaves it to the load again.
func (a *Adaptive) Aim(n int) { a.aim = n }

// TakePeak is the most calls in flight at an answer since it was asked last.
func (a *Adaptive) TakePeak() (n int) {
	n, a.busiest = a.busiest, 0
	return n
}

// Grant is the grant to aim for, between least and most.
func (a *Adaptive) Grant(least, most int) int {
	n := a.aim
	if n == 0 {
		n = 2 * max(a.peak, a.last)
	}
	return max(min(max(n, least), most), 1)
}
