package credit

// window is the number of answers over which Adaptive measures the load.
const window = 64

// Adaptive chooses the grant of one connection. Aim sets it, for code that divides memory
// between many connections. Without Aim, the load decides: twice the most calls that were
// in flight during the last answers. So a busy peer may double its calls in flight each
// round, and an idle one falls back to the minimum.
type Adaptive struct {
	peak, last int
	answers    int
	busiest    int // most calls in flight since TakePeak
	aim        int // 0 means that the load decides
}

// Observe counts an answer given while held calls were in flight, including its own.
func (a *Adaptive) Observe(held int) {
	a.peak = max(a.peak, held)
	a.busiest = max(a.busiest, held)
	if a.answers++; a.answers == window {
		a.last, a.peak, a.answers = a.peak, 0, 0
	}
}

// Aim sets what to grant from now on. With 0, the load decides again.
func (a *Adaptive) Aim(n int) { a.aim = n }

// TakePeak returns the most calls in flight at an answer since it was last called.
func (a *Adaptive) TakePeak() (n int) {
	n, a.busiest = a.busiest, 0
	return n
}

// Grant returns the grant to aim for, between least and most.
func (a *Adaptive) Grant(least, most int) int {
	n := a.aim
	if n == 0 {
		n = 2 * max(a.peak, a.last)
	}
	return max(min(max(n, least), most), 1)
}
