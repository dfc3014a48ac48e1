package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
)

// Load makes the settings of a dump those of all scopes, in one revision, except for those of
// connections, which stay. Errors are those of Set.
func (s *Store) Load(d *settings.Dump, o Options) (Result, error) {
	return s.load(func(now *settings.State) (*settings.State, error) { return now.Load(d) }, o)
}

// Import makes the live settings of a configuration file those of the global scope, unless
// values is nil, and of listener and peer scopes, unless scopes is nil. See
// settings.State.Import. Errors are those of Set.
func (s *Store) Import(values *settings.Values, scopes map[settings.Scope]settings.Values, o Options) (Result, error) {
	return s.load(func(now *settings.State) (*settings.State, error) { return now.Import(values, scopes) }, o)
}

func (s *Store) load(change func(*settings.State) (*settings.State, error), o Options) (Result, error) {
	return s.change(&o, func(now *settings.State) (*revision, error) {
		next, err := change(now)
		return &revision{before: now, next: next, entry: &history.Entry{Kind: history.Load}}, err
	})
}

// Elements returns the elements that an import stored with a change, until ElementsDone, or
// nil.
func (s *Store) Elements() []byte {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.elements
}

// ElementsDone forgets the elements, once they are stored in their own place.
func (s *Store) ElementsDone() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed {
		return watch.ErrShutdown
	}
	if s.elements == nil {
		return nil
	}
	err := s.commit(&Record{ElementsDone: true})
	if err == nil {
		s.elements = nil
	}
	return err
}
