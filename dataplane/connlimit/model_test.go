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
	left    bool
}

func (h *holder) Busy() bool { return h.busy }

func (h *holder) Evict(e Eviction) {
	if h.evicted != nil || h.left {
		panic("evicted twice, or after it left")
	}
	h.evicted = &e
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
}

func newModel() *model {
	m := &model{now: time.Unix(1e9, 0)}
	root := New(m.now, Config{Name: "all", Limits: Limits{Total: 8, PerKey: 4, Reserved: 2}})
	m.tables = []*Table{root}
	for _, name := range []string{"left", "right"} {
		m.tables = append(m.tables, New(m.now, Config{Name: name, Parent: root, Limits: Limits{Total: 5, PerKey: 3}}))
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
	holders []*holder
}

func (m *model) share(t *Table, r Reason, key Key) share {
	l := t.Limits()
	s := share{table: t, reason: r, limit: map[Reason]int{PerKey: l.PerKey, Kept: max(l.Total-l.Reserved, 0), Total: l.Total}[r]}
	for _, h := range m.all {
		if h.held() && slices.Contains(chain(h.table), t) && (r != PerKey || h.key == key) && (r != Kept || h.class == Ordinary) {
			s.holders = append(s.holders, h)
		}
	}
	return s
}

// sharesOf are those in which a newcomer needs a place.
func (m *model) sharesOf(t *Table, key Key, class Class) (out []share) {
	for _, t := range chain(t) {
		out = append(out, m.share(t, PerKey, key))
		if class == Ordinary && t.Limits().Reserved > 0 {
			out = append(out, m.share(t, Kept, key))
		}
		out = append(out, m.share(t, Total, key))
	}
	return out
}

// mayGo says whether a newcomer may take the place of h.
func (m *model) mayGo(h *holder) bool {
	if h.used.IsZero() {
		return !h.busy && m.now.Sub(h.since) >= HalfOpenGrace
	}
	return !h.busy && m.now.Sub(h.used) >= Grace
}

func (m *model) admit(t *rapid.T) {
	h := &holder{
		table: rapid.SampledFrom(m.tables).Draw(t, "table"), since: m.now,
		key:   Name(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")),
		class: rapid.SampledFrom([]Class{Ordinary, Ordinary, Reserved}).Draw(t, "class"),
	}
	before := m.sharesOf(h.table, h.key, h.class)
	hopeless := false
	for _, s := range before {
		hopeless = hopeless || len(s.holders) >= s.limit && !slices.ContainsFunc(s.holders, m.mayGo)
	}
	held := m.heldBy()
	place, err := h.table.Admit(m.now, h.key, h.class, h)
	lost := slices.DeleteFunc(held, (*holder).held)
	if err != nil {
		refused, ok := errors.AsType[*RefusedError](err)
		if len(lost) > 0 || !ok || !hopeless && !refused.Leaving {
			t.Fatalf("%v; %d were evicted", err, len(lost))
		}
		return
	}
	if hopeless {
		t.Fatalf("admitted although nobody may go")
	}
	for _, v := range lost {
		m.checkVictim(t, h, v)
	}
	h.place = place
	m.all = append(m.all, h)
	for i, s := range m.sharesOf(h.table, h.key, h.class) {
		if n := len(s.holders); n > max(s.limit, len(before[i].holders)) {
			t.Fatalf("%d hold places of %s of %s, limit %d", n, s.reason, s.table.name, s.limit)
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

// checkVictim says whether v is the one who had to go for h.
func (m *model) checkVictim(t *rapid.T, h, v *holder) {
	if !m.mayGo(v) {
		t.Fatalf("%+v was in use and lost its place", v)
	}
	if v.evicted.For != h.key || v.evicted.Reason == PerKey && v.key != h.key || v.evicted.Reason == Kept && v.class == Reserved {
		t.Fatalf("evicted by %v: %+v, of %v", h.key, v.evicted, v.key)
	}
	i := slices.IndexFunc(m.tables, func(t *Table) bool { return t.name == v.evicted.Table })
	for _, o := range m.share(m.tables[i], v.evicted.Reason, h.key).holders {
		sooner := o.idleSince().Before(v.idleSince())
		if o.used.IsZero() != v.used.IsZero() {
			sooner = o.used.IsZero()
		}
		if m.mayGo(o) && sooner {
			t.Fatalf("%+v had to go before %+v", o, v)
		}
	}
}

// pick gives one of those who hold a place, or nil.
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
		keys := make(map[Key]bool)
		for _, h := range m.all {
			if !slices.Contains(chain(h.table), table) {
				continue
			}
			if h.evicted != nil && !h.left {
				want.Leaving++
			}
			if h.held() {
				want.Held++
				keys[h.key] = true
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
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms")) * time.Millisecond)
			},
			"limits": func(t *rapid.T) {
				table := rapid.SampledFrom(m.tables).Draw(t, "table")
				table.SetLimits(Limits{
					Total:    rapid.IntRange(1, 8).Draw(t, "total"),
					PerKey:   rapid.IntRange(1, 5).Draw(t, "per key"),
					Reserved: rapid.IntRange(0, 2).Draw(t, "reserved"),
					Idle:     time.Duration(rapid.SampledFrom([]int{0, 5, 20}).Draw(t, "idle")) * time.Second,
					HalfOpen: time.Duration(rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "half-open")) * time.Second,
				})
			},
			"age": m.age,
		})
	})
}
