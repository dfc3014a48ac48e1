package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// View is what is in force at a scope.
type View struct {
	Revision uint32
	settings.Effective
}

// Get looks from a scope. *settings.NotFoundError when its listener or
// connection doesn't exist.
func (s *Store) Get(scope settings.Scope) (View, error) {
	target, err := s.target(scope)
	if err != nil {
		return View{}, err
	}
	state := s.state.Load()
	if scope.Kind == settings.Connection {
		return View{state.Revision(), state.Effective(target)}, nil
	}
	return View{state.Revision(), state.At(scope)}, nil
}

// Explain lists all values of a key for a scope, the widest first: the default,
// the configuration file, scopes. The last one wins and is marked. It is empty
// for a key without an implementation. *settings.NotFoundError when the scope's
// listener or connection doesn't exist.
func (s *Store) Explain(scope settings.Scope, k settings.Key) ([]settings.Saying, error) {
	target, err := s.target(scope)
	if err != nil {
		return nil, err
	}
	state := s.state.Load()
	if scope.Kind == settings.Connection {
		return state.Explain(k, target), nil
	}
	return state.ExplainAt(k, scope), nil
}

// History lists up to limit revisions, the newest first: those older than
// revision before, or from the newest on when before is 0. A limit under 1
// stands for all that are kept, history.MaxEntries at most. Entries are
// shared and not to be changed.
func (s *Store) History(before uint32, limit int) []*history.Entry {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	return s.past.Newest(before, limit)
}

// Dump is all settings of all scopes but those of connections, with what is
// in force below them. Load takes it.
func (s *Store) Dump() settings.Dump { return s.state.Load().Dump() }
