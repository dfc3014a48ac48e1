package desired

import (
	"slices"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
)

// difference follows a revision of many scopes over the connections: it
// touches where something else is in force afterwards.
type difference struct {
	before, next *settings.State
	bound        map[string]settings.KeySet // by connection id: keys that its own scope decides
}

func newDifference(before, next *settings.State) *difference {
	return &difference{before: before, next: next, bound: make(map[string]settings.KeySet)}
}

func (d *difference) changed(key dataplane.ConnKey) (keys dataplane.Keys) {
	target := settings.Target(key)
	before, next := d.before.Resolve(target), d.next.Resolve(target)
	for _, k := range before.Differ(&next).Keys() {
		keys |= planeKeys[k]
	}
	own := d.next.Layer(settings.Scope{Kind: settings.Connection, Name: key.ID})
	d.bound[key.ID] = own.Values.Keys() & before.Differ(&next)
	return keys
}

func (d *difference) finish(effects []dataplane.Effect) []dataplane.Effect {
	effects = slices.Clone(effects)
	for i := range effects {
		if d.bound[effects[i].ConnID] != 0 {
			endsWithConnection(&effects[i])
		}
	}
	return effects
}
