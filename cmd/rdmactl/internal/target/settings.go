package target

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Configure returns base with assignments KEY=VALUE. They must be settings that rdmad would
// accept at its global scope.
func Configure(base rpcrdma.Settings, assignments []string) (*rpcrdma.Settings, error) {
	if len(assignments) == 0 {
		return &base, nil
	}
	var change settings.Change
	for _, a := range assignments {
		name, text, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not KEY=VALUE, such as inline.send_max=2048", a)
		}
		k, ok := live.ParseKey(name)
		if !ok {
			return nil, fmt.Errorf("there is no setting %q", name)
		}
		if change.Set.Keys().Has(k) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		v, err := k.Row().Parse(text)
		if err != nil {
			return nil, err
		}
		change.Set.Set(k, v)
	}
	state, err := settings.NewState(live.Of(&base), 0)
	if err != nil {
		return nil, err
	}
	if state, err = state.Apply(&change); err != nil {
		return nil, err
	}
	v := state.Resolve(settings.Target{})
	return v.Settings(), nil
}
