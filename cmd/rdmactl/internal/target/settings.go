package target

import (
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Configure returns base with other values of some settings, which rdmad would have to accept at its global scope.
func Configure(base rpcrdma.Settings, set live.Values) (*rpcrdma.Settings, error) {
	if set.Keys() == 0 {
		return &base, nil
	}
	state, err := settings.NewState(live.Of(&base), 0)
	if err != nil {
		return nil, err
	}
	if state, err = state.Apply(&settings.Change{Set: set}); err != nil {
		return nil, err
	}
	v := state.Resolve(settings.Target{})
	return v.Settings(), nil
}
