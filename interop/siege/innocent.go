package siege

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// callTimeout is how long an innocent client waits for an answer; then it
// counts an error.
const callTimeout = 30 * time.Second

// innocent is a client that makes calls at a steady pace.
type innocent struct {
	name  string
	every time.Duration // a call is due
	least int           // calls of a phase of the short form
	do    func(ctx context.Context) error
	close func()

	made atomic.Int64 // calls without an error in this phase
}

// work makes calls until the phase is over. A call that was begun is finished;
// calls that were due before the phase's end and could not be begun count with the
// time that they have waited.
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

// late returns how late each call is that was due and not made.
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
