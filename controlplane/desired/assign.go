package desired

import (
	"time"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Assign puts the fleet's settings in force. At each scope, a value of operators overrides that
// of the fleet. ok is false if nothing changes. Assign refuses the whole layer, with the errors
// of Set, if it names a listener that this rdmad does not have, if it conflicts with other
// settings, or while an operator's revision waits to be confirmed.
//
// If confirmWithin is not 0, the layer is rolled back unless a later call assigns the same layer
// in time. A call that assigns another layer rolls it back first. A layer that was rolled back is
// refused with a *TakenBackError.
func (s *Store) Assign(f settings.FleetLayer, confirmWithin time.Duration) (_ Result, ok bool, err error) {
	o := Options{Actor: history.Actor{Name: "fleet"}, ConfirmWithin: confirmWithin}
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.ready(&o); err != nil {
		return Result{}, false, err
	}
	now := s.state.Load().Fleet()
	if f.Assignment != 0 && f.Assignment == now.TakenBack {
		return Result{}, false, &TakenBackError{Assignment: f.Assignment}
	}
	if f.Equal(&now) {
		return Result{Revision: s.Revision()}, false, nil
	}
	confirmed, err := s.conclude(&f, &o)
	if err != nil {
		return Result{}, false, err
	}
	if err := s.targets(&f); err != nil {
		return Result{}, false, err
	}
	before := s.state.Load()
	next, err := before.WithFleet(f)
	if err != nil {
		return Result{}, false, err
	}
	res, err := s.revise(&revision{before: before, next: next, entry: &history.Entry{Kind: history.Fleet}, amend: confirmed}, &o)
	return res, err == nil, err
}

// conclude ends the confirm window of the layer in force, if there is one: confirmed is its
// entry if f gives the same for good, else it is taken back. changing is held.
func (s *Store) conclude(f *settings.FleetLayer, o *Options) (confirmed *history.Entry, err error) {
	p := s.pending()
	switch {
	case p == nil:
		return nil, nil
	case p.Kind != history.Fleet:
		return nil, pendingError(p)
	case o.ConfirmWithin == 0 && f.Same(&p.Step.Fleet.After):
		return ended(p, history.Confirmed), nil
	}
	return nil, s.takeBack(p.Revision)
}

// Fleet returns the settings of the fleet, and the values of operators that override them.
func (s *Store) Fleet() (settings.FleetLayer, []settings.Pin) {
	state := s.state.Load()
	return state.Fleet(), state.Pins()
}
