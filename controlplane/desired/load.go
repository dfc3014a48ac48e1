package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Load makes the settings of a dump those of all scopes, in one revision;
// only those of connections stay. Errors are those of Set.
func (s *Store) Load(d *settings.Dump, o Options) (Result, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.ready(&o); err != nil {
		return Result{}, err
	}
	if err := s.expected(&o); err != nil {
		return Result{}, err
	}
	if p := s.pending(); p != nil {
		return Result{}, pendingError(p)
	}
	before := s.state.Load()
	next, err := before.Load(d)
	if err != nil {
		return Result{}, err
	}
	r := &revision{before: before, next: next, entry: &history.Entry{Kind: history.Load}}
	return s.revise(r, &o)
}
