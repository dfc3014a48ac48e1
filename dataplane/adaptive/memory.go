package adaptive

// Pool is the registered memory of a listener. Whoever splits a budget sets
// the inputs and reads Limit. All are in bytes.
type Pool struct {
	// Least is what the pool can't do without, Need what the grants of its
	// connections take, Registered what it holds now.
	Least, Need, Registered int64

	// Limit is what the pool may hold.
	Limit int64
}

// Split divides a budget between pools. Each gets its least, even when they are
// more than the budget; then, as far as it goes and equally where it does not,
// each what its grants need, twice what it holds, and what is left.
func Split(pools []Pool, budget int64) {
	for i := range pools {
		pools[i].Limit = pools[i].Least
		budget -= pools[i].Least
	}
	budget = fill(pools, budget, func(p *Pool) int64 { return p.Need })
	budget = fill(pools, budget, func(p *Pool) int64 { return 2 * p.Registered })
	fill(pools, budget, func(p *Pool) int64 { return p.Limit + max(budget, 0) })
}

// fill raises limits to what is wanted, the lowest rise first, and returns
// what is left of the budget.
func fill(pools []Pool, budget int64, wanted func(*Pool) int64) int64 {
	want := make([]int64, len(pools))
	open := 0
	for i := range pools {
		p := &pools[i]
		want[i] = max(wanted(p)-p.Limit, 0)
		if want[i] > 0 {
			open++
		}
	}
	for open > 0 && budget >= int64(open) {
		part := budget / int64(open)
		for i := range pools {
			if want[i] == 0 {
				continue
			}
			n := min(part, want[i])
			pools[i].Limit += n
			budget -= n
			if want[i] -= n; want[i] == 0 {
				open--
			}
		}
	}
	return budget
}
