package connlimit

import "container/heap"

// fair finds the owner with the most places in a table, so that an owner with fewer can
// take one of them. It only considers places of class Ordinary.
type fair struct {
	// ready are the owners that may have a connection that was idle for FairGrace, the
	// largest first. waiting are the others, by the time when they may have one.
	ready, waiting groups
}

func newFair() fair {
	return fair{
		ready:   groups{before: func(a, b *group) bool { return a.size() > b.size() }},
		waiting: groups{before: func(a, b *group) bool { return a.due < b.due }},
	}
}

// giver returns the idlest member of the largest owner that has an idle one, if the owner
// has more than least places. Otherwise it returns nil.
func (f *fair) giver(now int64, least int) *member {
	for w := f.waiting.list; len(w) > 0 && w[0].due <= now; w = f.waiting.list {
		f.move(w[0], &f.ready)
	}
	for r := f.ready.list; len(r) > 0 && r[0].size() > least; r = f.ready.list {
		if m := r[0].idlest(now, FairGrace, FairGrace); m != nil {
			return m
		}
		r[0].due = r[0].idleAt()
		f.move(r[0], &f.waiting)
	}
	return nil
}

func (f *fair) move(g *group, to *groups) {
	f.remove(g)
	g.in = to
	heap.Push(to, g)
}

func (f *fair) remove(g *group) {
	if g.in != nil {
		heap.Remove(g.in, g.index)
		g.in = nil
	}
}

// grew records that an owner has one more place.
func (f *fair) grew(g *group) {
	if at := g.idleAt(); g.in == nil || at < g.due {
		g.due = at
		f.move(g, &f.waiting)
		return
	}
	heap.Fix(g.in, g.index)
}

// shrank records that an owner has one place less.
func (f *fair) shrank(g *group) {
	switch {
	case g.in == nil:
	case g.size() == 0:
		f.remove(g)
	default:
		heap.Fix(g.in, g.index)
	}
}

// idleAt returns the earliest time at which a member may have been idle for FairGrace. The
// group must not be empty.
func (g *group) idleAt() int64 {
	first := g.half
	if len(first) == 0 || len(g.used) > 0 && g.used[0].seen < first[0].seen {
		first = g.used
	}
	return first[0].seen + int64(FairGrace)
}

// groups is a heap of groups.
type groups struct {
	list   []*group
	before func(a, b *group) bool
}

func (h *groups) Len() int           { return len(h.list) }
func (h *groups) Less(i, j int) bool { return h.before(h.list[i], h.list[j]) }

func (h *groups) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}

// Push implements heap.Interface.
func (h *groups) Push(x any) {
	g := x.(*group)
	g.index = len(h.list)
	h.list = append(h.list, g)
}

// Pop implements heap.Interface.
func (h *groups) Pop() any {
	last := len(h.list) - 1
	g := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return g
}
