package loglimit

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Period is the time between two counts of a flood.
const Period = 5 * time.Second

const (
	burst      = 10  // lines of a kind that are logged in a period
	floodBurst = 2   // the same during a flood, each of another peer
	maxKinds   = 128 // kinds at a time; exact kinds have as many of their own
)

// kind identifies the lines that are counted together.
type kind struct {
	level   slog.Level
	message string
	exact   bool   // only lines with the same attributes are of this kind
	attrs   uint64 // hash of these, if exact
}

// overflow is the message for the counts of kinds beyond maxKinds.
const overflow = "lines of other kinds"

// line is a record and the handler that writes it.
type line struct {
	to     slog.Handler
	record slog.Record
}

func (l line) write() {
	if l.to != nil {
		_ = l.to.Handle(context.Background(), l.record) // an error of the log cannot be logged
	}
}

// limiter decides which lines are logged.
type limiter struct {
	out slog.Handler // for counts

	mu    sync.Mutex
	flows flows
	exact flows // of exact kinds
}

type flows map[kind]*flow

func newLimiter(out slog.Handler) *limiter {
	return &limiter{out: out, flows: make(flows), exact: make(flows)}
}

// take reports whether a line is logged, and returns the line with counts that is due
// before it.
func (l *limiter) take(k kind, peer string, ln line, now time.Time) (due line, pass bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flow(k, now)
	if f == nil {
		return line{}, true
	}
	due = f.roll(now, l.out)
	if f.passes(peer) {
		return due, true
	}
	if f.held == 0 { // a timer runs only while lines are held back
		time.AfterFunc(f.ends.Sub(now), func() { l.expire(f) })
		ln.record = ln.record.Clone()
		f.example = ln
	}
	f.hold(peer)
	return due, false
}

// expire logs the counts of a period that has ended.
func (l *limiter) expire(f *flow) {
	l.mu.Lock()
	due := f.roll(time.Now(), l.out)
	l.mu.Unlock()
	due.write()
}

// flow returns the flow of a kind. If there are too many kinds, lines of exact kinds have
// no flow: they are logged. The others share one flow per level.
func (l *limiter) flow(k kind, now time.Time) *flow {
	known := l.flows
	if k.exact {
		known = l.exact
	}
	f := known[k]
	if f == nil && len(known) >= maxKinds {
		known.forget(now)
	}
	if f == nil && len(known) >= maxKinds {
		if k.exact {
			return nil
		}
		k.message = overflow
		f = known[k]
	}
	if f == nil {
		f = &flow{kind: k}
		f.begin(now, burst)
		known[k] = f
	}
	return f
}

// forget drops the kinds whose period is over.
func (s flows) forget(now time.Time) {
	for k, f := range s {
		if f.held == 0 && !now.Before(f.ends) {
			delete(s, k)
		}
	}
}

// flush ends all periods.
func (l *limiter) flush(now time.Time) (due []line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var held []*flow
	for _, known := range []flows{l.flows, l.exact} {
		for _, f := range known {
			if f.held > 0 {
				held = append(held, f)
			}
		}
	}
	slices.SortFunc(held, func(a, b *flow) int {
		return cmp.Or(a.ends.Compare(b.ends), cmp.Compare(a.message, b.message))
	})
	for _, f := range held {
		due = append(due, f.count(now, l.out))
		f.begin(now, floodBurst)
	}
	return due
}
