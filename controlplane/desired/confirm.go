package desired

import (
	"time"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/watch"
)

// retryRollback is how soon a rollback that could not be stored is tried
// again.
const retryRollback = 5 * time.Second

// Pending returns the revision that waits to be confirmed, or nil. It does not wait for a change
// that is being stored.
func (s *Store) Pending() *history.Entry {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	return s.pending()
}

// pending is Pending with changing or publishing held. Nothing but a rollback comes after a
// revision that waits: it is the newest one.
func (s *Store) pending() *history.Entry {
	if e := s.past.Find(s.Revision()); e != nil && e.Status == history.Pending {
		return e
	}
	return nil
}

// ended is an entry whose confirm window has ended.
func ended(e *history.Entry, as history.Status) *history.Entry {
	now := *e
	now.Status = as
	return &now
}

func pendingError(e *history.Entry) error {
	return &PendingError{Revision: e.Revision, Deadline: e.Deadline, Fleet: e.Kind == history.Fleet}
}

// Confirm confirms a revision of operators. The error is a *NotPendingError if the revision does not
// wait for it, a *PendingError for one of the fleet, which only its controller confirms, by Assign,
// a *StorageError if the confirmation cannot be stored and the revision still waits, or
// watch.ErrShutdown.
func (s *Store) Confirm(revision uint32) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed {
		return watch.ErrShutdown
	}
	over := s.endOverdue()
	p := s.pending()
	switch {
	case p == nil || over:
		return &NotPendingError{Revision: revision}
	case p.Revision != revision:
		return &NotPendingError{Revision: revision, Pending: p.Revision}
	case p.Kind == history.Fleet:
		return pendingError(p)
	}
	e := ended(p, history.Confirmed)
	if err := s.commit(&Record{Amend: e}); err != nil {
		return err
	}
	s.publishing.Lock()
	s.past.Replace(e)
	s.watchers.Spread(e)
	s.publishing.Unlock()
	s.rearm()
	s.log.Info("settings confirmed", "revision", revision)
	return nil
}

// rearm has the clock run for the revision that waits to be confirmed, if
// there is one, and for no other; changing is held.
func (s *Store) rearm() {
	s.stopWindow()
	p := s.pending()
	if p == nil {
		return
	}
	// A clock that was set back must not make the window longer.
	left := min(time.Until(p.Deadline), p.Deadline.Sub(p.Time))
	s.runWindow(p.Revision, left)
}

func (s *Store) runWindow(revision uint32, left time.Duration) {
	s.window = time.AfterFunc(left, func() { s.expire(revision) })
}

// stopWindow stops the clock; a rollback that already began finds changing
// held, and then nothing that waits.
func (s *Store) stopWindow() {
	if s.window != nil {
		s.window.Stop()
		s.window = nil
	}
}

// expire rolls back a revision that was not confirmed.
func (s *Store) expire(revision uint32) {
	s.changing.Lock()
	defer s.changing.Unlock()
	p := s.pending()
	if s.closed || p == nil || p.Revision != revision {
		return
	}
	s.giveUp(revision)
}

// endOverdue rolls back a revision whose deadline is over, and reports whether there was one. Its timer may
// still run: a clock that is set forward does not concern timers, and a rollback that could not be stored
// waits. changing is held.
func (s *Store) endOverdue() bool {
	p := s.pending()
	if p == nil || time.Now().Before(p.Deadline) {
		return false
	}
	s.giveUp(p.Revision)
	return true
}

// giveUp rolls back a revision that was not confirmed, or later if that can't be stored now; changing
// is held.
func (s *Store) giveUp(revision uint32) {
	s.log.Warn("settings not confirmed in time", "revision", revision)
	if err := s.takeBack(revision); err != nil {
		s.log.Error("settings not rolled back yet", "revision", revision, "error", err)
		s.stopWindow() // it has run out, unless the deadline came before
		s.runWindow(revision, retryRollback)
	}
}

// takeBack rolls the revision back that waits to be confirmed; changing is
// held.
func (s *Store) takeBack(revision uint32) error {
	_, err := s.goBack(&history.Entry{Kind: history.AutoRollback, Target: revision - 1}, &Options{})
	return err
}
