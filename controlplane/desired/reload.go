package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Reload applies the settings of the configuration file. If they differ from its last ones,
// they become a revision. A value of operators still overrides the file's at its scope. ok is
// false if nothing changes. Reload refuses the whole file, with the errors of Set, if it
// conflicts with other settings, or while a revision waits to be confirmed.
func (s *Store) Reload(f settings.FileLayer) (_ Result, ok bool, err error) {
	return s.reloadBy(f, Options{})
}

// CheckReload returns the error that Reload would return.
func (s *Store) CheckReload(f settings.FileLayer) error {
	_, _, err := s.reloadBy(f, Options{DryRun: true})
	return err
}

// fileActor is the name of the actor of changes of the configuration file.
const fileActor = "config file"

func (s *Store) reloadBy(f settings.FileLayer, o Options) (_ Result, ok bool, err error) {
	o.Actor = history.Actor{Name: fileActor, From: f.Name}
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.ready(&o); err != nil {
		return Result{}, false, err
	}
	return s.reload(f, &o)
}

// reload is reloadBy with changing held.
func (s *Store) reload(f settings.FileLayer, o *Options) (_ Result, ok bool, err error) {
	changed := f.Differ(&s.seen)
	if changed == 0 {
		if !o.DryRun {
			s.reline(f)
		}
		return Result{Revision: s.Revision()}, false, nil
	}
	if p := s.pending(); p != nil {
		return Result{}, false, pendingError(p)
	}
	before := s.state.Load()
	next, err := before.WithFile(f)
	if err != nil {
		return Result{}, false, err
	}
	global := f.Values.Differ(&s.seen.Values)
	e := &history.Entry{
		Kind: history.Reload, Set: f.Values.Only(global & f.Values.Keys()), Unset: global &^ f.Values.Keys(),
	}
	res, err := s.revise(&revision{before: before, next: next, entry: e, seen: &f}, o)
	return res, err == nil, err
}

// reline notes where the file says the same as before.
func (s *Store) reline(f settings.FileLayer) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.state.Store(s.state.Load().Relined(f))
}
