package audit

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of the entries for refused requests. A client without any right can make hundreds per second, which would push
// everything else out of the log.
const (
	refusedTime = time.Minute // in which the first requests of a client have entries; all others are counted
	refusedMost = 10          // of these entries
	maxRefused  = 1 << 10     // of the request in one, in bytes
	maxRefusers = 64          // clients at a time; what is refused to others is counted together
)

// refuser is a client whose requests are refused, in one of its roles; zero for all those beyond maxRefusers.
type refuser struct{ actor, role string }

// refusals are those of one client in refusedTime.
type refusals struct {
	recorded int
	counted  []*count // by action and outcome
	over     bool     // the next write takes the counts
}

// count is refused requests that have no entry of their own.
type count struct {
	last  Entry
	n     int
	since time.Time
}

// Refused records a request that is not carried out, or what rdmad did by itself. It stays refused, or done, if
// the entry cannot be written. Of many refused requests of a client, the log has the first ones, and the number of
// the others within a minute, or when it is closed.
func (l *Log) Refused(e Entry) {
	e.Request, e.Reason = bound(e.Request, maxRefused), Bounded(e.Reason)
	e.Before, e.After = Bounded(e.Before), Bounded(e.After)
	if e.Actor != selfActor && l.counts(e) {
		return
	}
	l.report(l.Append(&e), &e)
}

// counts reports whether a refused request has no entry of its own, and then counts it.
func (l *Log) counts(e Entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	who := refuser{e.Actor, e.Role}
	if l.refused[who] == nil && len(l.refused) >= maxRefusers {
		who = refuser{}
	}
	r := l.refused[who]
	if r == nil {
		r = new(refusals)
		l.refused[who] = r
		time.AfterFunc(refusedTime, func() {
			l.mu.Lock()
			r.over = true
			l.mu.Unlock()
			_ = l.append() // which logs what it can't write
		})
	}
	if r.recorded < refusedMost {
		r.recorded++
		return false
	}
	i := slices.IndexFunc(r.counted, func(c *count) bool { return c.last.Action == e.Action && c.last.Outcome == e.Outcome })
	if i < 0 {
		i = len(r.counted)
		r.counted = append(r.counted, &count{since: l.cfg.Now().UTC()})
	}
	r.counted[i].last = e
	r.counted[i].n++
	return true
}

// takeCounts forgets the clients whose time is over, or all, and returns the entries for what was counted. The caller
// holds mu.
func (l *Log) takeCounts(all bool) (out []*Entry) {
	for who, r := range l.refused {
		if !all && !r.over {
			continue
		}
		delete(l.refused, who)
		for _, c := range r.counted {
			out = append(out, c.entry(who))
		}
	}
	return out
}

// entry is the last request's, without its details.
func (c *count) entry(who refuser) *Entry {
	e, whose := c.last, ""
	if who == (refuser{}) {
		whose = ", also of other clients"
	}
	e.Request = ""
	e.Reason = Bounded(fmt.Sprintf("refused %d times since %s%s; the last time: %s", c.n, c.since.Format(time.RFC3339), whose, c.last.Reason))
	return &e
}
