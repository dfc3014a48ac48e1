package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// View is the set of values in force at a scope.
type View struct {
	Revision uint32
	settings.Effective
}

// Get returns the view of a scope. The error is a *settings.NotFoundError if its listener or
// connection does not exist.
func (s *Store) Get(scope settings.Scope) (View, error) {
	target, err := s.target(scope)
	if err != nil {
		return View{}, err
	}
	state := s.state.Load()
	return View{state.Revision(), state.At(scope, target)}, nil
}

// Explain lists all values of a key for a scope, the widest first: the default, the
// configuration file, scopes. The last one is in force, and is marked. All of them are those of
// one revision. The list is empty for a key without an implementation. The error is a
// *settings.NotFoundError if the scope's listener or connection does not exist.
func (s *Store) Explain(scope settings.Scope, k settings.Key) (revision uint32, all []settings.Saying, err error) {
	target, err := s.target(scope)
	if err != nil {
		return 0, nil, err
	}
	state := s.state.Load()
	return state.Revision(), state.Explain(k, scope, target), nil
}

// History lists up to limit revisions, the newest first: those older than revision before, or
// the newest if before is 0. A limit under 1 means all that are kept, at most
// history.MaxEntries. Entries are shared and must not be changed.
func (s *Store) History(before uint32, limit int) []*history.Entry {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	return s.past.Newest(before, limit)
}

// Dump returns all settings of all scopes except connections, with the values in force below
// them. Load takes it.
func (s *Store) Dump() settings.Dump { return s.state.Load().Dump() }
