package connlimit

import (
	"context"
	"time"
)

// Run calls Age when it is due, until ctx ends.
func (t *Table) Run(ctx context.Context) {
	for {
		var due <-chan time.Time
		if next := t.Age(time.Now()); !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-due:
		case <-t.changed:
		case <-ctx.Done():
			return
		}
	}
}

// Age evicts connections that were idle or half-open for too long. It returns when
// to call it again; the zero time if no connection can become too old.
func (t *Table) Age(now time.Time) time.Time {
	t.mu.Lock()
	at := int64(now.Sub(t.start))
	t.all.settle(at)
	var out evictions
	for t.mayLeave(out) {
		m, reason := t.overdue(at)
		if m == nil {
			break
		}
		out = append(out, eviction{m.place, Eviction{Reason: reason, Table: t.name}})
		m.place.exit()
	}
	out.commit()
	next := t.nextAge(at)
	t.mu.Unlock()
	out.tell()
	return next
}

// overdue is a member that was idle or half-open for too long, or nil.
func (t *Table) overdue(now int64) (*member, Reason) {
	m := t.all.oldestHalfOpen(now)
	if long := int64(t.limits.halfOpen()); m != nil && long > 0 && now-m.seen >= long {
		return m, HalfOpen
	}
	if long := int64(t.limits.Idle); long > 0 {
		return t.all.idleFor(now, long), Idle
	}
	return nil, Idle
}

// ageStep is the least time between two calls of Age. A place is freed at most this
// late.
const ageStep = time.Second

// nextAge returns the earliest time at which a present or future holder can be too old.
func (t *Table) nextAge(now int64) time.Time {
	next := time.Duration(-1)
	earlier := func(long time.Duration, h byTime) {
		if long == 0 {
			return
		}
		at := long
		if len(h) > 0 {
			at = time.Duration(h[0].seen-now) + long
		}
		if at = max(at, ageStep); next < 0 || at < next {
			next = at
		}
	}
	earlier(t.limits.halfOpen(), t.all.half)
	earlier(t.limits.Idle, t.all.used)
	if next < 0 {
		return time.Time{}
	}
	return t.start.Add(time.Duration(now) + next)
}
