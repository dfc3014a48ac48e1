package siege

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// callTimeout is how long an innocent client waits for an answer before it
// counts an error.
const callTimeout = 30 * time.Second

// innocent is a client that makes calls at a steady pace.
type innocent struct {
	name  string
	every time.Duration // interval between calls
	least int           // calls that a phase of the short form needs
	do    func(ctx context.Context) error
	close func()

	made atomic.Int64 // calls without an error in this phase
}

// work makes calls until the phase is over. It finishes a call that has begun.
// A call that was due before the end of the phase and could not begin counts
// with the time that it has waited.
func (in *innocent) work(ctx context.Context, over <-chan struct{}) Latencies {
	var latencies []time.Duration
	var errs []error
	in.made.Store(0)
	due := time.Now()
	for {
		select {
		case <-over:
		case <-time.After(time.Until(due)):
		}
		select {
		case <-over:
			return summarize(append(latencies, in.late(due)...), errs)
		default:
		}
		if err := in.once(ctx); err != nil {
			errs = append(errs, err)
		} else {
			in.made.Add(1)
		}
		latencies = append(latencies, time.Since(due))
		due = due.Add(in.every)
	}
}

// late returns the delays of the calls that were due and not made.
func (in *innocent) late(due time.Time) (waited []time.Duration) {
	for now := time.Now(); due.Before(now); due = due.Add(in.every) {
		waited = append(waited, now.Sub(due))
	}
	return waited
}

// once makes one call.
func (in *innocent) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errors.New("no answer in "+callTimeout.String()))
	defer cancel()
	err := in.do(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}
