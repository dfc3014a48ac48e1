package adaptive

// Pool is the registered memory of a listener. The caller sets the inputs and reads Limit
// after Split. All values are in bytes.
type Pool struct {
	// Least is the minimum of the pool, Need what the grants of its connections need,
	// Registered what it holds now.
	Least, Need, Registered int64

	// Limit is how much the pool may hold.
	Limit int64
}

// Split divides a budget between pools. Each gets its minimum, even if that exceeds the
// budget. The rest goes, equally where it is not enough, first to what the grants need,
// then to twice what each pool holds, and then to all.
func Split(pools []Pool, budget int64) {
	for i := range pools {
		pools[i].Limit = pools[i].Least
		budget -= pools[i].Least
	}
	budget = fill(pools, budget, func(p *Pool) int64 { return p.Need })
	budget = fill(pools, budget, func(p *Pool) int64 { return 2 * p.Registered })
	fill(pools, budget, func(p *Pool) int64 { return p.Limit + max(budget, 0) })
}

// fill raises limits to the wanted values, the smallest rise first, and returns the rest of
// the budget.
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
