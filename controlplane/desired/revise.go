package desired

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
)

// Set makes a change, or a dry run of it. It looks up the scope's target. Errors are those of
// the model, *settings.NotFoundError, *PendingError, *StorageError and watch.ErrShutdown. After
// an error nothing has changed.
func (s *Store) Set(c settings.Change, o Options) (Result, error) {
	return s.change(&o, func(now *settings.State) (_ *revision, err error) {
		// The data plane reports the end of a connection after it has removed the
		// connection. store looks for one that ends from here on.
		if c.Target, err = s.target(c.Scope); err != nil {
			return nil, err
		}
		next, err := now.Apply(&c)
		e := &history.Entry{Kind: history.Set, Scope: c.Scope, Set: c.Set, Unset: c.Unset}
		return &revision{before: now, next: next, entry: e, reach: &touched{state: next, c: &c}}, err
	})
}

// change makes the revision that step makes of the present state, unless one waits to be confirmed.
func (s *Store) change(o *Options, step func(now *settings.State) (*revision, error)) (Result, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.ready(o); err != nil {
		return Result{}, err
	}
	if p := s.pending(); p != nil {
		return Result{}, pendingError(p)
	}
	r, err := step(s.state.Load())
	if err != nil {
		return Result{}, err
	}
	return s.revise(r, o)
}

// ready refuses what no change may be, and ends a window that is over; changing is held.
func (s *Store) ready(o *Options) error {
	if s.closed {
		return watch.ErrShutdown
	}
	if err := o.check(); err != nil {
		return err
	}
	s.endOverdue()
	if now := s.Revision(); o.Expected != nil && *o.Expected != now {
		return &settings.StaleError{Expected: *o.Expected, Current: now}
	}
	return nil
}

// revision is a checked step to a new state.
type revision struct {
	before, next *settings.State
	entry        *history.Entry // what is known of it beforehand
	amend        *history.Entry // an earlier one whose status changes; nil without
	seen         *settings.FileLayer
	reach        reach // nil: where something else is in force afterwards
}

// revise stores, publishes and applies a revision, or says what it would do; a change
// that changes nothing is no revision. changing is held.
func (s *Store) revise(r *revision, o *Options) (Result, error) {
	e := r.entry
	e.Step = r.before.Diff(r.next)
	if r.reach == nil {
		r.reach = difference{&e.Step}
	}
	update := r.reach.update()
	nothing := r.nothingNew()
	if nothing && !o.DryRun && o.Elements != nil {
		if err := s.commit(&Record{Elements: o.Elements}); err != nil {
			return Result{}, err
		}
		s.elements = o.Elements
	}
	if o.DryRun || nothing {
		update.Resolve = newResolved(r.next).resolve
		return Result{Revision: r.before.Revision(), Effects: effects(r, update, s.dp.PreviewSettings), Step: e.Step, Unchanged: nothing}, nil
	}
	e.Revision, e.Time, e.Actor, e.Comment = r.next.Revision(), time.Now().UTC().Round(0), o.actor(), o.Comment
	if o.ConfirmWithin != 0 {
		e.Status, e.Deadline = history.Pending, e.Time.Add(o.ConfirmWithin)
	}
	if err := s.store(r, o.Elements); err != nil {
		return Result{}, err
	}
	s.rearm()
	update.Resolve = s.Resolve
	done := effects(r, update, s.dp.ApplySettings)
	s.tell(e, done)
	return Result{Revision: e.Revision, Effects: done, Step: e.Step, ConfirmDeadline: e.Deadline}, nil
}

// nothingNew says whether operators asked for what is set already. A rollback that ends a window
// is new.
func (r *revision) nothingNew() bool {
	switch r.entry.Kind {
	case history.Set, history.Load, history.Rollback:
		return r.amend == nil && len(r.entry.Step.Differences()) == 0
	}
	return false
}

// store writes a revision to the disk and publishes it, or neither.
func (s *Store) store(r *revision, elements json.RawMessage) error {
	s.publishing.Lock()
	s.storing, s.ended = true, nil
	drop := s.past.Excess(r.entry)
	s.publishing.Unlock()
	err := s.commit(&Record{Entry: r.entry, Amend: r.amend, Seen: r.seen, Elements: elements, Drop: drop})
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.storing = false
	if err != nil {
		return err
	}
	next := r.next
	for _, id := range append(s.ended, gone(r.before, s.state.Load())...) {
		next = next.Forget(id)
	}
	for _, id := range given(&r.entry.Step) { // its end may have been reported before it had settings
		if !s.alive(id) {
			next = next.Forget(id)
		}
	}
	if r.seen != nil {
		s.seen = *r.seen
	}
	if elements != nil {
		s.elements = elements
	}
	s.state.Store(next)
	if r.amend != nil {
		s.past.Replace(r.amend)
		s.watchers.Spread(r.amend)
	}
	s.past.Add(r.entry)
	s.watchers.Spread(r.entry)
	return nil
}

// given are the connections to which a step gives settings.
func given(step *settings.Step) (out []string) {
	for i := range step.Deltas {
		if d := &step.Deltas[i]; d.Scope.Kind == settings.Connection && d.After.Values.Keys() != 0 {
			out = append(out, d.Scope.Name)
		}
	}
	return out
}

// gone are the connections whose settings were forgotten between two states.
func gone(before, now *settings.State) (out []string) {
	if before == now {
		return nil
	}
	for _, id := range before.Connections() {
		if now.Own(id) == nil {
			out = append(out, id)
		}
	}
	return out
}

// Doubt returns the reason why changes are refused until a restart, or nil.
func (s *Store) Doubt() error {
	if s.disk == nil {
		return nil
	}
	return s.disk.Doubt()
}

// commit writes to the disk, if there is one; changing is held.
func (s *Store) commit(r *Record) error {
	if s.disk == nil {
		return nil
	}
	if err := s.disk.Commit(r); err != nil {
		s.log.Error("settings not stored", "error", err)
		return &StorageError{Err: err}
	}
	return nil
}

// tell logs a revision and its effects.
func (s *Store) tell(e *history.Entry, effects []Effect) {
	args := []any{"revision", e.Revision, "kind", e.Kind.String()}
	switch e.Kind {
	case history.Set:
		args = append(args, "scope", e.Scope.String(), "set", describe(&e.Set), "unset", e.Unset.String())
	case history.Reload:
		args = append(args, "set", describe(&e.Set), "unset", e.Unset.String())
		if f := e.Step.File; f != nil && (len(f.Before.Scopes) > 0 || len(f.After.Scopes) > 0) {
			before, after := e.Step.Texts()
			args = append(args, "before", before, "after", after)
		}
	case history.Rollback, history.AutoRollback:
		args = append(args, "to", e.Target)
	}
	if e.Actor != (history.Actor{}) {
		args = append(args, "by", e.Actor.Name, "from", e.Actor.From)
	}
	if !e.Deadline.IsZero() {
		args = append(args, "confirm_until", e.Deadline.UTC())
	}
	s.log.Info("settings changed", append(args, counts(effects))...)
}

func describe(v *settings.Values) string {
	keys := v.Keys().Keys()
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = k.String() + "=" + v.Format(k)
	}
	return strings.Join(parts, " ")
}
