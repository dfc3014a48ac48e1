package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
)

// Rollback makes a new revision with the state after an earlier revision. Settings of
// connections that have ended since, or that were made before a restart, do not return.
// Rollback ends a confirm window; it cannot open one within another. The current revision, and
// one with the same settings, make no new revision, unless a window ends. The error is an
// *UnknownRevisionError if the revision is not kept or does not exist yet; other errors are
// those of Set.
func (s *Store) Rollback(revision uint32, o Options) (Result, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.ready(&o); err != nil {
		return Result{}, err
	}
	if p := s.pending(); p != nil && o.ConfirmWithin != 0 {
		return Result{}, pendingError(p)
	}
	return s.goBack(&history.Entry{Kind: history.Rollback, Target: revision}, &o)
}

// goBack returns to the state after revision e.Target; changing is held.
func (s *Store) goBack(e *history.Entry, o *Options) (Result, error) {
	before := s.state.Load()
	undo, ok := s.past.Since(e.Target)
	if !ok || len(undo) == 0 && s.pending() != nil { // what waits is not to be kept by a rollback
		oldest, _ := s.past.Oldest()
		return Result{}, &UnknownRevisionError{Revision: e.Target, Oldest: oldest, Current: before.Revision()}
	}
	next := before
	for _, past := range undo {
		next = next.Undo(past.Step, s.alive)
	}
	if p := s.pending(); p != nil && p.Step.Fleet != nil {
		next = next.TakeBack(p.Step.Fleet)
	}
	next, err := next.Advance()
	if err != nil {
		return Result{}, err
	}
	r := &revision{before: before, next: next, entry: e}
	if p := s.pending(); p != nil {
		r.amend = ended(p, history.RolledBack)
	}
	return s.revise(r, o)
}

// alive says whether a connection is there to have settings.
func (s *Store) alive(id string) bool {
	_, err := s.dp.Connection(id)
	return err == nil
}
