package rpcbind

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// DefaultInterval is the time between two checks of rpcbind.
const DefaultInterval = 30 * time.Second

const (
	// firstPause is the pause after the first failure. It doubles up to the interval.
	firstPause = time.Second
	// lookTimeout limits a whole check.
	lookTimeout = 10 * time.Second
)

// Config configures a Registrar. Zero values mean the defaults.
type Config struct {
	Registrations []Registration
	Logger        *slog.Logger
	Endpoints     []Endpoint    // DefaultEndpoints
	Interval      time.Duration // DefaultInterval
}

// Registrar keeps registrations in rpcbind. Set may be called from any goroutine at any
// time, the other methods by one goroutine at a time.
type Registrar struct {
	log       *slog.Logger
	endpoints []Endpoint
	interval  time.Duration
	dial      dialFunc

	// Only run uses entries, leaving and away until it has ended.
	entries []entry
	leaving []entry // to be removed
	away    string  // the last logged reason why rpcbind could not be asked

	mu      sync.Mutex
	wanted  []entry // of the last Set
	changed bool    // wanted is not in entries yet
	seen    State   // by the last look
	kick    chan struct{}

	cut     context.CancelFunc // ends a check in progress; nil before Start
	closing chan struct{}
	done    chan struct{} // closed when run has ended
}

// New checks the registrations, but does not register yet. Two addresses for the same
// program, version and transport are an error.
func New(cfg Config) (*Registrar, error) {
	all, err := entries(cfg.Registrations, strconv.Itoa(os.Geteuid()))
	if err != nil {
		return nil, err
	}
	r := &Registrar{
		log:       cfg.Logger,
		endpoints: cfg.Endpoints,
		interval:  cfg.Interval,
		dial:      new(net.Dialer).DialContext,
		entries:   all,
		kick:      make(chan struct{}, 1),
		closing:   make(chan struct{}),
		done:      make(chan struct{}),
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.endpoints == nil {
		r.endpoints = DefaultEndpoints()
	}
	if r.interval <= 0 {
		r.interval = DefaultInterval
	}
	return r, nil
}

// Check returns the error that Set would return.
func (r *Registrar) Check(list []Registration) error {
	_, err := entries(list, strconv.Itoa(os.Geteuid()))
	return err
}

// Start starts registering, in its own goroutine. Call it at most once.
func (r *Registrar) Start() {
	var ctx context.Context
	ctx, r.cut = context.WithCancel(context.Background())
	go r.run(ctx)
}

// run checks rpcbind until the Registrar is closed.
func (r *Registrar) run(ctx context.Context) {
	defer close(r.done)
	pause := firstPause
	for {
		wait := r.interval
		if r.look(ctx) != nil {
			wait = min(pause, r.interval)
			pause = wait * 2
		} else {
			pause = firstPause
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.kick:
			timer.Stop()
			pause = firstPause
		case <-r.closing:
			timer.Stop()
			return
		}
	}
}

// look registers what rpcbind does not have, removes what is no longer wanted, and logs
// changes. With nothing to do it does not connect to rpcbind.
func (r *Registrar) look(ctx context.Context) error {
	r.adopt()
	if len(r.entries)+len(r.leaving) == 0 {
		r.saw(nil)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c, held, err := r.ask(ctx)
	if err == nil {
		defer c.close()
		if held, err = r.removeLeaving(ctx, c, held); err == nil {
			err = r.ensureAll(ctx, c, held)
		}
	}
	r.saw(err)
	if errors.As(err, new(*TakenError)) {
		r.reportAway(nil)
	} else {
		r.reportAway(err)
	}
	return err
}

// ensureAll registers each missing entry. After a *TakenError it continues and returns that
// error at the end. It stops at any other error.
func (r *Registrar) ensureAll(ctx context.Context, c *client, held []mapping) error {
	var taken error
	for i := range r.entries {
		e := &r.entries[i]
		err := r.ensure(ctx, c, held, e)
		if err != nil && !errors.As(err, new(*TakenError)) {
			return err
		}
		r.report(e, c, err)
		if err != nil {
			taken = err
		}
	}
	return taken
}

// ask connects to rpcbind and lists its entries.
func (r *Registrar) ask(ctx context.Context) (*client, []mapping, error) {
	c, err := connect(ctx, r.dial, r.endpoints)
	if err != nil {
		return nil, nil, err
	}
	held, err := c.dump(ctx)
	if err != nil {
		c.close()
		return nil, nil, err
	}
	return c, held, nil
}

// ensure registers an entry if rpcbind does not have it.
func (r *Registrar) ensure(ctx context.Context, c *client, held []mapping, e *entry) error {
	if m := find(held, e); m != nil {
		if m.address == e.address {
			return nil
		}
		return &TakenError{What: e.String(), Program: e.program, Version: e.version, Address: m.address, Owner: m.owner}
	}
	e.registered = false
	ok, err := c.set(ctx, &e.mapping)
	if err == nil && !ok {
		err = &TakenError{What: e.String(), Program: e.program, Version: e.version}
	}
	return err
}

// find returns the mapping in the place of e, or nil if the place is free.
func find(held []mapping, e *entry) *mapping {
	for i := range held {
		if e.same(&held[i]) {
			return &held[i]
		}
	}
	return nil
}

// report logs an entry's state if it has changed.
func (r *Registrar) report(e *entry, c *client, err error) {
	if err == nil {
		if !e.registered {
			r.log.Info("registered with rpcbind", "program", e.program, "version", e.version,
				"netid", e.netid, "address", e.bound.String(), "rpcbind", c.at.String())
		}
		e.registered, e.problem = true, ""
		return
	}
	e.registered = false
	if text := err.Error(); text != e.problem {
		e.problem = text
		r.log.Warn("not registered with rpcbind, retrying", "error", text)
	}
}

// reportAway logs that rpcbind cannot be used, or that it works again. err is nil if it
// works.
func (r *Registrar) reportAway(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == r.away || errors.Is(err, context.Canceled): // Close causes the latter
		return
	case err != nil:
		r.log.Warn("cannot register with rpcbind, retrying", "error", text)
	default:
		r.log.Info("rpcbind answers")
	}
	r.away = text
}
