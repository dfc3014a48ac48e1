package desired

import (
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
)

// FleetPreview is the effect of another layer of the fleet.
type FleetPreview struct {
	Changes []settings.Difference // of the values in force at the layers' scopes
	Pins    []settings.Pin        // with the layer
	Effects []Effect
}

// PreviewFleet returns what Assign would do with a layer, and changes nothing. A revision that
// waits to be confirmed is no error.
func (s *Store) PreviewFleet(f settings.FleetLayer) (FleetPreview, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed {
		return FleetPreview{}, watch.ErrShutdown
	}
	if err := s.targets(&f); err != nil {
		return FleetPreview{}, err
	}
	before := s.state.Load()
	next, err := before.WithFleet(f)
	if err != nil {
		return FleetPreview{}, err
	}
	res, err := s.revise(&revision{before: before, next: next, entry: &history.Entry{Kind: history.Fleet}}, &Options{DryRun: true})
	return FleetPreview{before.FleetDifferences(next), next.Pins(), res.Effects}, err
}

// targets refuses a layer for listeners that this rdmad does not have.
func (s *Store) targets(f *settings.FleetLayer) error {
	for scope := range f.Scopes {
		if _, err := s.target(scope); err != nil {
			return err
		}
	}
	return nil
}
