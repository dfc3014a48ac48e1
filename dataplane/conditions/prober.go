package conditions

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// firstRetry is the pause after the first failed look of a check that backs off. It doubles
// up to the check's interval.
const firstRetry = time.Second

// Check looks at one thing repeatedly.
type Check struct {
	Kind Kind
	Name string
	// Of distinguishes checks of the same thing. A check with another Of replaces the old
	// one and begins anew. It must be comparable.
	Of any
	// Every is the time between two looks, randomly changed by up to a quarter.
	Every time.Duration
	// BackOff looks again sooner after a look that found a problem, and then less and
	// less often.
	BackOff bool
	// Timeout ends the context of a look. A look that still does not return, because a
	// system call hangs, has the reason Overdue until it returns. No other look begins
	// meanwhile.
	Timeout time.Duration
	Before  *Reason // until the first look ends; nil means no condition
	Overdue *Reason // nil means none
	// Look returns a nil reason if there is nothing to look at now: then there is no condition.
	Look func(ctx context.Context) (*Reason, string)
}

// Prober runs checks that may take long, each in one goroutine, and reports their results
// to the registry.
type Prober struct {
	registry *Registry
	log      *slog.Logger

	mu     sync.Mutex
	closed bool
	all    map[key]*probe
}

// probe is a running check.
type probe struct {
	p      *Prober
	check  Check
	cancel context.CancelFunc
	now    chan struct{} // requests a look
	done   chan struct{}

	mu     sync.Mutex // taken before the registry's
	ended  bool       // its findings are ignored from now on
	before *Reason    // of the last finding
}

// NewProber returns a prober without checks.
func NewProber(r *Registry, log *slog.Logger) *Prober {
	return &Prober{registry: r, log: log, all: make(map[key]*probe)}
}

// Keep sets the checks that run. New checks begin. Checks that are not in the list end, and
// their conditions are removed.
func (p *Prober) Keep(checks []Check) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	there := make(map[key]bool, len(checks))
	for i := range checks {
		c := &checks[i]
		k := key{c.Kind, c.Name}
		there[k] = true
		if old := p.all[k]; old != nil {
			if old.check.Of == c.Of {
				continue
			}
			old.end()
		}
		p.all[k] = p.begin(c)
	}
	for k, old := range p.all {
		if !there[k] {
			old.end()
			delete(p.all, k)
			p.registry.Remove(k.kind, k.name)
		}
	}
}

// Look makes all checks look now.
func (p *Prober) Look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.all {
		select {
		case one.now <- struct{}{}:
		default: // a look is requested already
		}
	}
}

// Close ends all checks. For those that hang it waits for the longest of their timeouts, in all.
func (p *Prober) Close() {
	p.mu.Lock()
	p.closed = true
	all := slices.Collect(maps.Values(p.all))
	clear(p.all)
	p.mu.Unlock()
	longest := time.Duration(0)
	for _, one := range all {
		one.end()
		longest = max(longest, one.check.Timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	for _, one := range all {
		select {
		case <-one.done:
		case <-ctx.Done():
		}
	}
}

func (p *Prober) begin(c *Check) *probe {
	ctx, cancel := context.WithCancel(context.Background())
	one := &probe{p: p, check: *c, cancel: cancel, now: make(chan struct{}, 1), done: make(chan struct{})}
	if c.Before != nil {
		p.registry.Set(Finding{c.Name, c.Before, ""})
	}
	go one.run(ctx)
	return one
}

// end ends the probe. It does not wait.
func (one *probe) end() {
	one.mu.Lock()
	one.ended = true
	one.mu.Unlock()
	one.cancel()
}

func (one *probe) run(ctx context.Context) {
	defer close(one.done)
	retry := firstRetry
	for {
		pause := one.check.Every
		if one.look(ctx) == OK {
			retry = firstRetry
		} else if one.check.BackOff {
			pause = min(retry, pause)
			retry = 2 * pause
		}
		select {
		case <-time.After(pause*3/4 + rand.N(pause/2+1)):
		case <-one.now:
		case <-ctx.Done():
			return
		}
	}
}

// look makes one look.
func (one *probe) look(ctx context.Context) Status {
	within, cancel := context.WithTimeout(ctx, one.check.Timeout)
	defer cancel()
	returned := false // under mu
	if one.check.Overdue != nil {
		late := time.AfterFunc(one.check.Timeout+one.check.Timeout/4, func() { // one that heeds its context has returned by then
			one.mu.Lock()
			defer one.mu.Unlock()
			if !returned {
				one.foundLocked(one.check.Overdue, "no answer within "+one.check.Timeout.String())
			}
		})
		defer late.Stop()
	}
	reason, message := one.check.Look(within)
	one.mu.Lock()
	defer one.mu.Unlock()
	returned = true
	one.foundLocked(reason, message)
	if reason == nil {
		return OK
	}
	return reason.Status
}

func (one *probe) foundLocked(reason *Reason, message string) {
	if one.ended {
		return
	}
	if reason == nil {
		one.p.registry.Remove(one.check.Kind, one.check.Name)
		one.before = nil
		return
	}
	f := Finding{one.check.Name, reason, message}
	one.p.registry.Set(f)
	before := one.before
	one.before = reason
	if before == reason || before == nil && reason.Status == OK {
		return
	}
	if reason.Status == OK {
		one.p.log.Info("condition is OK again", "kind", string(reason.Kind), "name", f.Name)
		return
	}
	level := slog.LevelInfo // it was so at the first look
	switch {
	case before == nil:
	case reason.Status == Failed:
		level = slog.LevelError
	default:
		level = slog.LevelWarn
	}
	c := Condition{Finding: f}
	one.p.log.Log(context.Background(), level, "condition is not OK", "kind", string(reason.Kind), "name", f.Name, "status", reason.Status.String(),
		"reason", reason.Name, "error", message, "remedy", c.Remedy())
}
