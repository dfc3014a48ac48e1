package clients

import (
	"cmp"
	"slices"
	"time"
)

// Top is the number of clients with series of their own in the metrics.
const Top = 20

// How often the clients with series of their own are chosen again, and how many of them may
// lose their series at once. Both bound the number of series over time.
const (
	chooseEvery = 5 * time.Minute
	mostLosing  = Top / 4
)

// top are the clients that have series of their own in the metrics. The others count together,
// in counters that only grow, as Prometheus needs it: what a client did before it was chosen,
// and after it lost its series, counts with the others. A client's series begins with all
// that it did, which no rate sees.
type top struct {
	chosen []*client
	at     time.Time // of the last choice
	others Counters
}

// selected is what top remembers of a client.
type selected struct {
	chosen bool
	seen   Counters // that count with the others, while the client is not chosen
	before uint64   // calls at the last choice
}

// Export returns the clients that have series of their own, and the others.
func (t *Table) Export(now time.Time) (list []Client, others Client) {
	t.mu.Lock()
	defer t.mu.Unlock()
	current := make(map[*client]Client, len(t.clients))
	for _, c := range t.clients {
		current[c] = c.describe()
	}
	t.choose(now, current)
	others = t.rest.describe()
	t.top.see(&t.rest, others.Counters)
	for c, is := range current {
		if c.selected.chosen {
			list = append(list, is)
			continue
		}
		t.top.see(c, is.Counters)
		others.Connections += is.Connections
	}
	others.Counters = t.top.others
	slices.SortFunc(list, func(a, b Client) int { return a.Address.Compare(b.Address) })
	return list, others
}

// see counts with the others what a client did since it was seen before.
func (t *top) see(c *client, now Counters) {
	t.others.add(now.since(c.selected.seen))
	c.selected.seen = now
}

// choose gives free series to the busiest clients. Every few minutes, a client that made more
// than twice the calls of a chosen one takes its series.
func (t *Table) choose(now time.Time, current map[*client]Client) {
	due := now.Sub(t.top.at) >= chooseEvery
	if !due && len(t.top.chosen) == Top {
		return
	}
	calls := func(c *client) uint64 { return current[c].Calls - c.selected.before }
	busiest := func(a, b *client) int {
		return cmp.Or(cmp.Compare(calls(b), calls(a)), current[a].Address.Compare(current[b].Address))
	}
	var waiting []*client
	for c := range current {
		if !c.selected.chosen {
			waiting = append(waiting, c)
		}
	}
	slices.SortFunc(waiting, busiest)
	for len(waiting) > 0 && len(t.top.chosen) < Top {
		t.pick(waiting[0], current)
		t.top.chosen = append(t.top.chosen, waiting[0])
		waiting = waiting[1:]
	}
	if !due {
		return
	}
	slices.SortFunc(t.top.chosen, busiest)
	for i := 0; i < min(mostLosing, len(waiting)); i++ {
		last := &t.top.chosen[Top-1-i]
		if calls(waiting[i]) <= 2*calls(*last) {
			break
		}
		(*last).selected.chosen, (*last).selected.seen = false, current[*last].Counters
		t.pick(waiting[i], current)
		*last = waiting[i]
	}
	t.top.at = now
	for c, is := range current {
		c.selected.before = is.Calls
	}
}

// pick gives a client series of its own.
func (t *Table) pick(c *client, current map[*client]Client) {
	t.top.see(c, current[c].Counters)
	c.selected.chosen = true
}
