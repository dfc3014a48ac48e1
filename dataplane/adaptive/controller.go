package adaptive

// Controller steps connections and their groups. The zero value is ready for use. Between
// steps it keeps only allocated memory.
type Controller struct {
	claims, raises []claim
}

// Step sets the targets of conns, which are all connections that share budget bytes. groups
// contains the group of each.
func (k *Controller) Step(conns []*Conn, groups []*Group, budget int64) {
	for _, g := range groups {
		g.begin()
	}
	for _, c := range conns {
		c.bounds()
		c.ask()
		c.Group.add(c)
	}
	for _, g := range groups {
		g.steer()
	}
	d := k.share(conns, budget)
	free := budget
	for _, c := range conns {
		free -= c.Memory(c.held())
	}
	rise := k.rise(conns, d, free)
	n := 0
	for _, c := range conns {
		target, held := c.due(d), c.held()
		if target > held {
			target = held + k.raises[n].at(rise)
			n++
		}
		c.Target = target
	}
}

// share divides the budget. Connections that keep their grants come first.
func (k *Controller) share(conns []*Conn, budget int64) deal {
	k.claims = k.claims[:0]
	for _, c := range conns {
		if c.pinned() {
			budget -= c.Memory(max(c.held(), c.Min))
		} else {
			k.claims = append(k.claims, c.claim())
		}
	}
	return share(k.claims, budget)
}

// claim returns what the connection claims.
func (c *Conn) claim() claim {
	most := max(min(c.demand, c.Group.limit(c)), c.Min)
	if c.pinned() {
		most = max(min(most, c.held()), c.Min)
	}
	return claim{weight: c.Weight, least: c.Min, most: most, cost: c.Cost}
}

// due returns the connection's part in a deal. A rise of less than 1/16 waits until it is
// larger or reaches the end.
func (c *Conn) due(d deal) int {
	cl := d.claim(c.claim())
	n := cl.at(d.level)
	if n > c.Target && n < c.Target+max(c.Target/16, 1) && n < cl.most && c.Target >= cl.least {
		n = c.Target
	}
	return n
}

// rise returns the level to which targets may rise beyond what is held, within free.
func (k *Controller) rise(conns []*Conn, d deal, free int64) int64 {
	k.raises = k.raises[:0]
	for _, c := range conns {
		if n := c.due(d) - c.held(); n > 0 {
			k.raises = append(k.raises, claim{weight: c.Weight, most: n, cost: c.Cost})
		}
	}
	rise, _ := highest(k.raises, free)
	return rise
}
