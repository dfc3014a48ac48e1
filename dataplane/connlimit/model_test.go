package connlimit

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// holder is a connection of the model.
type holder struct {
	table   *Table
	key     Key
	class   Class
	place   *Place
	since   time.Time
	used    time.Time // zero while half-open
	busy    bool
	evicted *Eviction
	turn    int // of being evicted
	left    bool
	model   *model
}

func (h *holder) Busy() bool { return h.busy }

func (h *holder) Evict(e Eviction) {
	if h.evicted != nil || h.left {
		panic("evicted twice, or after it left")
	}
	h.evicted = &e
	h.model.turns++
	h.turn = h.model.turns
}

func (h *holder) held() bool { return h.evicted == nil && !h.left }

// idleSince orders holders as newcomers take their places.
func (h *holder) idleSince() time.Time {
	if h.used.IsZero() {
		return h.since
	}
	return h.used
}

// model is a tree of tables as a list of holders.
type model struct {
	now    time.Time
	tables []*Table
	all    []*holder
	turns  int
}

func newModel() *model {
	m := &model{now: time.Unix(1e9, 0)}
	root := New(m.now, Config{Name: "all", Limits: Limits{Total: 8, PerKey: 4, Reserved: 2}})
	m.tables = []*Table{root}
	for i, name := range []string{"left", "right", "heavy"} {
		m.tables = append(m.tables, New(m.now, Config{Name: name, Parent: root, Weight: i + 1, Limits: Limits{Total: 5, PerKey: 3}}))
	}
	return m
}

func chain(t *Table) (out []*Table) {
	for ; t != nil; t = t.parent {
		out = append(out, t)
	}
	return out
}

// share is a limit and the holders that it counts.
type share struct {
	table   *Table
	reason  Reason
	limit   int
	weight  int // most weight; 0 means no limit
	add     int // weight of the newcomer
	holders []*holder
}

// share is what counts with h, among those who hold places and the others given.
func (m *model) share(t *Table, r Reason, h *holder, others ...*holder) share {
	l := t.Limits()
	s := share{table: t, reason: r, limit: map[Reason]int{PerKey: l.PerKey, Kept: max(l.Total-l.Reserved, 0), Total: l.Total}[r]}
	s.add = h.table.weight
	switch {
	case r == Total:
		s.weight = l.Weight
	case r == PerKey && l.Total*s.add > l.Weight && l.Weight > 0:
		s.weight = max(l.Weight/4, s.add)
	}
	for _, o := range m.all {
		if (o.held() || slices.Contains(others, o)) && slices.Contains(chain(o.table), t) && (r != PerKey || o.likes(h)) && (r != Kept || o.class == Ordinary) {
			s.holders = append(s.holders, o)
		}
	}
	return s
}

// likes says that two holders count as one peer.
func (h *holder) likes(o *holder) bool { return h.key == o.key && h.class == o.class }

// sharesOf lists the shares in which a newcomer needs a place.
func (m *model) sharesOf(h *holder) (out []share) {
	for _, t := range chain(h.table) {
		out = append(out, m.share(t, PerKey, h))
		if h.class == Ordinary && t.Limits().Reserved > 0 {
			out = append(out, m.share(t, Kept, h))
		}
		out = append(out, m.share(t, Total, h))
	}
	return out
}

// of is how many places h's peer has.
func (s share) of(h *holder) (n int) {
	for _, o := range s.holders {
		if o.likes(h) {
			n++
		}
	}
	return n
}

// mayGo says whether any newcomer may take the place of h.
func (m *model) mayGo(h *holder) bool {
	if h.used.IsZero() {
		return !h.busy && m.now.Sub(h.since) >= HalfOpenGrace
	}
	return !h.busy && m.now.Sub(h.used) >= Grace
}

// mayGive says whether h may take the place of o because o's peer has more, or is
// its own.
func (m *model) mayGive(s share, h, o *holder) bool {
	if own := s.table.Limits().KeyGrace; s.reason == PerKey && own > 0 {
		return !o.busy && m.now.Sub(o.idleSince()) >= own
	}
	return s.reason != PerKey && o.class == Ordinary && !o.busy && m.now.Sub(o.idleSince()) >= FairGrace && s.of(o) > s.of(h)+1
}

// hopeless says that nobody has to go for h in the last share. A place that is freed in
// one below is free in it, too.
func (m *model) hopeless(shares []share, h *holder) bool {
	last := shares[len(shares)-1]
	if over := weightOf(last.holders) + last.add - last.weight; last.weight > 0 && over > 0 {
		mayGo := slices.DeleteFunc(slices.Clone(last.holders), func(o *holder) bool { return !m.mayGo(o) })
		if weightOf(mayGo) < min(over, last.add) {
			return true // unless those with fewer places may take enough, which depends on the order
		}
	}
	return last.full() && !slices.ContainsFunc(last.holders, func(o *holder) bool {
		return slices.ContainsFunc(shares, func(s share) bool {
			return s.full() && slices.Contains(s.holders, o) && (m.mayGo(o) || m.mayGive(s, h, o))
		})
	})
}

func (s share) full() bool {
	return len(s.holders) >= s.limit || s.weight > 0 && weightOf(s.holders)+s.add > s.weight
}

func weightOf(all []*holder) (n int) {
	for _, h := range all {
		n += h.table.weight
	}
	return n
}

func (m *model) admit(t *rapid.T) {
	h := &holder{
		table: rapid.SampledFrom(m.tables).Draw(t, "table"), since: m.now,
		key:   Name(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")),
		class: rapid.SampledFrom([]Class{Ordinary, Ordinary, Reserved}).Draw(t, "class"),
		model: m,
	}
	before := m.sharesOf(h)
	held := m.heldBy()
	place, err := h.table.Admit(m.now, h.key, h.class, h)
	lost := slices.DeleteFunc(held, (*holder).held)
	if err != nil {
		refused, ok := errors.AsType[*RefusedError](err)
		hopeless := false
		for i := range before {
			hopeless = hopeless || m.hopeless(before[:i+1], h)
		}
		if len(lost) > 0 || !ok || !hopeless && !refused.Leaving {
			t.Fatalf("%v; %d were evicted", err, len(lost))
		}
		return
	}
	for _, s := range before {
		gone := slices.DeleteFunc(slices.Clone(s.holders), (*holder).held)
		if left := s.weight - weightOf(s.holders) + weightOf(gone); s.full() && (len(gone) == 0 || s.weight > 0 && left < s.add && weightOf(gone) < s.add) {
			t.Fatalf("admitted, and only %d of %s of %s have gone", len(gone), s.reason, s.table.name)
		}
	}
	slices.SortFunc(lost, func(a, b *holder) int { return a.turn - b.turn })
	for i, v := range lost {
		m.checkVictim(t, h, v, lost[i:])
	}
	h.place = place
	m.all = append(m.all, h)
	for i, s := range m.sharesOf(h) {
		if n := len(s.holders); n > max(s.limit, len(before[i].holders)) {
			t.Fatalf("%d hold places of %s of %s, limit %d", n, s.reason, s.table.name, s.limit)
		}
		if n := weightOf(s.holders); s.weight > 0 && n > max(s.weight, weightOf(before[i].holders)) {
			t.Fatalf("places of %s of %s have weight %d, limit %d", s.reason, s.table.name, n, s.weight)
		}
	}
}

func (m *model) heldBy() (out []*holder) {
	for _, h := range m.all {
		if h.held() {
			out = append(out, h)
		}
	}
	return out
}

// checkVictim says whether v had to go for h, when those still there were.
func (m *model) checkVictim(t *rapid.T, h, v *holder, still []*holder) {
	if v.evicted.For != h.key || v.evicted.Reason == PerKey && !v.likes(h) || v.evicted.Reason == Kept && v.class == Reserved {
		t.Fatalf("evicted by %v: %+v, of %v", h.key, v.evicted, v.key)
	}
	i := slices.IndexFunc(m.tables, func(t *Table) bool { return t.name == v.evicted.Table })
	s := m.share(m.tables[i], v.evicted.Reason, h, still...)
	fair := !m.mayGo(v)
	if fair && !m.mayGive(s, h, v) {
		t.Fatalf("%+v lost its place to %v, which has %d of %d", v, h.key, s.of(h), s.of(v))
	}
	for _, o := range s.holders {
		sooner := o.idleSince().Before(v.idleSince())
		if o.used.IsZero() != v.used.IsZero() && (!fair || s.reason != PerKey) {
			sooner = o.used.IsZero()
		}
		switch {
		case m.mayGo(o) && (fair || sooner):
			t.Fatalf("%+v had to go before %+v", o, v)
		case fair && m.mayGive(s, h, o) && (s.of(o) > s.of(v) || o.likes(v) && sooner):
			t.Fatalf("%+v had to go before %+v, with %d and %d places", o, v, s.of(o), s.of(v))
		}
	}
}

// pick returns one of the holders that have a place, or nil.
func (m *model) pick(t *rapid.T) *holder {
	held := m.heldBy()
	if len(held) == 0 {
		return nil
	}
	return rapid.SampledFrom(held).Draw(t, "holder")
}

func (m *model) touch(h *holder) {
	h.used = m.now
	h.place.Touch(m.now)
}

func (m *model) age(t *rapid.T) {
	for _, table := range m.tables {
		l := table.Limits()
		held := m.heldBy()
		next := table.Age(m.now)
		if (l.Idle > 0 || l.HalfOpen > 0) && !next.After(m.now) {
			t.Fatalf("due again %v after now", next.Sub(m.now))
		}
		for _, h := range held {
			old := !h.used.IsZero() && !h.busy && l.Idle > 0 && m.now.Sub(h.used) >= l.Idle ||
				h.used.IsZero() && !h.busy && l.halfOpen() > 0 && m.now.Sub(h.since) >= l.halfOpen()
			old = old && slices.Contains(chain(h.table), table)
			if !h.held() && !old {
				t.Fatalf("%s: evicted too early: %+v", table.name, h)
			}
			if h.held() && old && table.Stats().Leaving < l.leavingLimit() {
				t.Fatalf("%s: not evicted: %+v", table.name, h)
			}
		}
	}
}

// check compares what the tables count with the list.
func (m *model) check(t *rapid.T) {
	for _, table := range m.tables {
		var want Stats
		keys := make(map[owner]bool)
		for _, h := range m.all {
			if !slices.Contains(chain(h.table), table) {
				continue
			}
			if h.evicted != nil && !h.left {
				want.Leaving++
			}
			if h.held() {
				want.Held++
				keys[owner{h.key, h.class}] = true
				if h.class == Reserved {
					want.Reserved++
				}
			}
		}
		got := table.Stats()
		if got.Held != want.Held || got.Reserved != want.Reserved || got.Leaving != want.Leaving || got.Keys != len(keys) {
			t.Fatalf("%s counts %+v, want %+v and %d keys", table.name, got, want, len(keys))
		}
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		t.Repeat(map[string]func(*rapid.T){
			"":      m.check,
			"admit": m.admit,
			"touch": func(t *rapid.T) {
				if h := m.pick(t); h != nil {
					m.touch(h)
				}
			},
			"work": func(t *rapid.T) {
				if h := m.pick(t); h != nil {
					if h.busy = !h.busy; !h.busy {
						m.touch(h)
					}
				}
			},
			"leave": func(t *rapid.T) {
				gone := slices.DeleteFunc(slices.Clone(m.all), func(h *holder) bool { return h.left })
				if len(gone) > 0 {
					h := rapid.SampledFrom(gone).Draw(t, "gone")
					h.place.Leave()
					h.left = true
				}
			},
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{1, 40, 100, 3000, 8000}).Draw(t, "ms")) * time.Millisecond)
			},
			"limits": func(t *rapid.T) {
				table := rapid.SampledFrom(m.tables).Draw(t, "table")
				table.SetLimits(Limits{
					Total:    rapid.IntRange(1, 8).Draw(t, "total"),
					PerKey:   rapid.IntRange(1, 5).Draw(t, "per key"),
					Weight:   rapid.IntRange(0, 12).Draw(t, "weight"),
					Reserved: rapid.IntRange(0, 2).Draw(t, "reserved"),
					KeyGrace: time.Duration(rapid.SampledFrom([]int{0, 1, 2000, 5000}).Draw(t, "key grace")) * time.Millisecond,
					Idle:     time.Duration(rapid.SampledFrom([]int{0, 5, 20}).Draw(t, "idle")) * time.Second,
					HalfOpen: time.Duration(rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "half-open")) * time.Second,
				})
			},
			"age": m.age,
		})
	})
}
