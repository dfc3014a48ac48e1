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
	t.lockCounted()
	defer t.mu.Unlock()
	t.choose(now)
	others = t.rest.describe()
	t.top.see(&t.rest)
	for _, c := range t.clients {
		if c.selected.chosen {
			list = append(list, c.describe())
			continue
		}
		t.top.see(c)
		others.Connections += c.up
	}
	others.Counters = t.top.others
	slices.SortFunc(list, func(a, b Client) int { return a.Address.Compare(b.Address) })
	return list, others
}

// see counts with the others what a client did since it was seen before.
func (t *top) see(c *client) {
	t.others.add(c.sum.since(c.selected.seen))
	c.selected.seen = c.sum
}

// choose gives free series to the busiest clients. Every few minutes, a client that made more
// than twice the calls of a chosen one takes its series.
func (t *Table) choose(now time.Time) {
	due := now.Sub(t.top.at) >= chooseEvery
	if !due && len(t.top.chosen) == Top {
		return
	}
	calls := func(c *client) uint64 { return c.sum.Calls - c.selected.before }
	busiest := func(a, b *client) int {
		return cmp.Or(cmp.Compare(calls(b), calls(a)), a.address.Compare(b.address))
	}
	var waiting []*client
	for _, c := range t.clients {
		if !c.selected.chosen {
			waiting = append(waiting, c)
		}
	}
	slices.SortFunc(waiting, busiest)
	for len(waiting) > 0 && len(t.top.chosen) < Top {
		t.pick(waiting[0])
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
		(*last).selected.chosen, (*last).selected.seen = false, (*last).sum
		t.pick(waiting[i])
		*last = waiting[i]
	}
	t.top.at = now
	for _, c := range t.clients {
		c.selected.before = c.sum.Calls
	}
}

// pick gives a client series of its own.
func (t *Table) pick(c *client) {
	t.top.see(c)
	c.selected.chosen = true
}
