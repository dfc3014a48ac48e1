package connlimit

// shed is how many places a newcomer of weight 1 frees in a group that exceeds a lowered
// limit, so that the group shrinks.
const shed = 2

// makeRoom chooses which places p takes in the full groups, beginning with its owner's
// group: a place freed for the owner is free in all groups above. If no member of a full
// group may be evicted, makeRoom evicts nobody.
func (t *Table) makeRoom(p *Place) (evictions, *RefusedError) {
	var out evictions
	for _, g := range t.groupsAbove(p) {
		for n := 0; n < max(shed, p.t.weight) && g.full(p); n++ {
			m := g.giver(p)
			if m != nil && g.t.mayLeave(out) {
				out = append(out, eviction{m.place, Eviction{Reason: g.reason, Table: g.t.name, For: p.key, By: p.holder}})
				m.place.exit()
				continue
			}
			if g.size() < g.wasSize && (!g.heavy(p) || g.weight+p.t.weight <= g.wasWeight) {
				break // one place freed for one newcomer, and as much weight
			}
			out.undo()
			return nil, g.refuse(p, m != nil)
		}
	}
	out.commit()
	return out, nil
}

// refuse counts and returns the refusal of p.
func (g *group) refuse(p *Place, leaving bool) *RefusedError {
	g.t.refused[g.reason]++
	e := &RefusedError{Reason: g.reason, Table: g.t.name, Key: p.key, Limit: g.limit(), Own: g.t.owned(p).size(), Leaving: leaving, Weight: g.heavy(p)}
	if e.Weight {
		e.Limit = g.size()
	}
	return e
}

// groupsAbove returns the groups that count p in t and above it, with their current sizes.
func (t *Table) groupsAbove(p *Place) (out []*group) {
	for ; t != nil; t = t.parent {
		out = append(out, t.groupsOf(p)...)
	}
	for _, g := range out {
		g.wasSize, g.wasWeight = g.size(), g.weight
	}
	return out
}

// mayLeave reports whether one more holder may be evicted in addition to chosen.
func (t *Table) mayLeave(chosen evictions) bool {
	return t.leaving+len(chosen) < t.limits.leavingLimit()
}

// addLeaving counts evicted holders that have not left t and the tables above it yet.
func (t *Table) addLeaving(n int) {
	for ; t != nil; t = t.parent {
		t.leaving += n
	}
}

// eviction is a holder chosen to lose its place. It is no longer in its groups.
type eviction struct {
	place *Place
	why   Eviction
}

type evictions []eviction

// undo gives the places back.
func (e evictions) undo() {
	for _, v := range e {
		v.place.enter()
	}
}

// commit makes the evictions final.
func (e evictions) commit() {
	for _, v := range e {
		v.place.t.evicted[v.why.Reason]++
		v.place.state = leaving
		v.place.t.addLeaving(1)
	}
}

// tell has the holders close. The tree is not locked.
func (e evictions) tell() {
	for _, v := range e {
		v.place.holder.Evict(v.why)
	}
}
