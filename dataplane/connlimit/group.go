package connlimit

import (
	"container/heap"
	"time"
)

// noLimit is the limit of a group without one.
const noLimit = -1

// owner is a key that has places of a class.
type owner struct {
	key   Key
	class Class
}

// group is a set of places with one limit: those of a table, those of a table without class
// Reserved, or those of one owner.
type group struct {
	t      *Table
	reason Reason
	owner  owner // with PerKey
	// half holds the half-open members in order of admission, used the others in
	// order of their last known use.
	half, used byTime
	weight     int // sum of the members' weights
	// Before places were chosen for a newcomer:
	wasSize, wasWeight int

	// Of an owner, in t.fair:
	in    *groups // nil for none
	index int     // in it
	due   int64   // before this time, no member is idle for FairGrace
}

// member is a place in a group.
type member struct {
	place *Place
	group *group
	in    *byTime // of group
	index int     // in it
	// seen is a time at or before the last use; in half, it is the time of admission. The
	// time of use only increases, so the first member of a heap is the idlest of all if its
	// seen is current.
	seen int64
}

func (g *group) size() int { return len(g.half) + len(g.used) }

func (g *group) limit() int {
	l := &g.t.limits
	switch {
	case g.reason == PerKey && l.PerKey > 0:
		return l.PerKey
	case g.reason == Kept && l.Total > 0 && l.Reserved > 0:
		return max(l.Total-l.Reserved, 0)
	case g.reason == Total && l.Total > 0:
		return l.Total
	}
	return noLimit
}

// full reports whether there is no room for p.
func (g *group) full(p *Place) bool {
	limit := g.limit()
	return limit != noLimit && g.size() >= limit || g.heavy(p)
}

// heavy reports whether p's weight is too much.
func (g *group) heavy(p *Place) bool {
	l := &g.t.limits
	switch {
	case l.Weight == 0:
		return false
	case g.reason == Total:
		return g.weight+p.t.weight > l.Weight
	case g.reason == PerKey && l.Total*p.t.weight > l.Weight:
		return g.weight+p.t.weight > max(l.Weight/4, p.t.weight)
	}
	return false
}

// giver returns the member whose place p may take, or nil.
func (g *group) giver(p *Place) *member {
	if m := g.idlest(p.since, HalfOpenGrace, Grace); m != nil {
		return m
	}
	if g.reason != PerKey {
		return g.t.fair.giver(p.since, g.t.owned(p).size()+1)
	}
	if own := g.t.limits.KeyGrace; own > 0 {
		return g.oldest(p.since, int64(own))
	}
	return nil
}

// idlest returns the oldest member that was half-open for halfOpen, or else the one that
// was idle for longest, if for at least idle, or nil. halfOpen is at most idle.
func (g *group) idlest(now int64, halfOpen, idle time.Duration) *member {
	if m := g.oldestHalfOpen(now); m != nil && now-m.seen >= int64(halfOpen) {
		return m
	}
	return g.idleFor(now, int64(idle))
}

// oldest returns the member that was half-open or idle for longest, if for at least long,
// or nil. Within HalfOpenGrace, half-open members go only if no other was idle for long: they
// may be about to make their first call.
func (g *group) oldest(now, long int64) *member {
	used, half := g.idleFor(now, long), g.oldestHalfOpen(now)
	if half == nil || now-half.seen < long {
		return used
	}
	young := now-half.seen < int64(HalfOpenGrace)
	if used == nil && young {
		g.settle(now) // behind half, members may wait that were used meanwhile
		used = g.idleFor(now, long)
	}
	if used != nil && (young || used.seen <= half.seen) {
		return used
	}
	return half
}

// oldestHalfOpen returns the half-open member that was admitted first, or nil. It moves
// members that were used meanwhile to used. If the first is still within its grace, so are
// those admitted later.
func (g *group) oldestHalfOpen(now int64) *member {
	for len(g.half) > 0 {
		m := g.half[0]
		if m.place.halfOpen() {
			return m
		}
		heap.Pop(&g.half)
		g.settled(m, now)
	}
	return nil
}

// settle moves all members that were used meanwhile from half to used.
func (g *group) settle(now int64) {
	all := g.half
	g.half = g.half[:0]
	for _, m := range all {
		if m.place.halfOpen() {
			g.half.Push(m)
		} else {
			g.settled(m, now)
		}
	}
	clear(all[len(g.half):])
	heap.Init(&g.half)
}

// settled puts a member that left half into used.
func (g *group) settled(m *member, now int64) {
	m.seen, m.in = m.place.active.Load(), &g.used
	if m.seen == 0 {
		m.seen = now // its first work is in flight
	}
	heap.Push(&g.used, m)
}

// halfOpen reports whether the connection has done nothing yet and has no work in flight.
func (p *Place) halfOpen() bool { return p.active.Load() == 0 && !p.holder.Busy() }

// idleFor returns the member that has been idle for longest, if for at least long, or nil.
// It checks a member in use again only after that time.
func (g *group) idleFor(now, long int64) *member {
	for len(g.used) > 0 && now-g.used[0].seen >= long {
		m := g.used[0]
		seen := m.place.active.Load()
		if m.place.holder.Busy() {
			seen = now
		}
		if seen <= m.seen {
			return m
		}
		m.seen = seen
		heap.Fix(&g.used, 0)
	}
	return nil
}

// owned returns the places of p's owner.
func (t *Table) owned(p *Place) *group {
	o := owner{p.key, p.class}
	if g := t.owners[o]; g != nil {
		return g
	}
	return &group{t: t, reason: PerKey, owner: o}
}

// groupsOf returns the groups of t that count p, its owner's first.
func (t *Table) groupsOf(p *Place) []*group {
	if p.class == Reserved {
		return []*group{t.owned(p), t.all}
	}
	return []*group{t.owned(p), t.ordinary, t.all}
}

// enter puts a place into the groups that count it.
func (p *Place) enter() {
	p.members = p.members[:0]
	active := p.active.Load()
	for _, g := range p.t.groupsAbove(p) {
		m := &member{place: p, group: g, in: &g.half, seen: p.since}
		if active > 0 {
			m.in, m.seen = &g.used, active
		}
		heap.Push(m.in, m)
		g.weight += p.t.weight
		p.members = append(p.members, m)
		if g.reason == PerKey {
			g.t.owners[g.owner] = g
			if p.class == Ordinary {
				g.t.fair.grew(g)
			}
		}
	}
}

// exit takes a place out of its groups.
func (p *Place) exit() {
	for _, m := range p.members {
		heap.Remove(m.in, m.index)
		m.group.weight -= p.t.weight
		if g := m.group; g.reason == PerKey {
			g.t.fair.shrank(g)
			if g.size() == 0 {
				delete(g.t.owners, g.owner)
			}
		}
	}
	p.members = p.members[:0]
}

// byTime is a heap of members by seen.
type byTime []*member

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].seen < h[j].seen }

func (h byTime) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *byTime) Push(x any) {
	m := x.(*member)
	m.index = len(*h)
	*h = append(*h, m)
}

// Pop implements heap.Interface.
func (h *byTime) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return m
}
