package desired

import (
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
)

// difference follows a revision of many scopes over the connections: it
// touches where something else is in force afterwards.
type difference struct {
	before, next *settings.State
	keys         perClass[settings.KeySet]
	bound        map[string]settings.KeySet // by connection id: keys that its own scope decides
}

func newDifference(before, next *settings.State) *difference {
	return &difference{before: before, next: next, bound: make(map[string]settings.KeySet)}
}

func (d *difference) changed(key dataplane.ConnKey) (keys dataplane.Keys, _ string) {
	var differ settings.KeySet
	own := d.next.Own(key.ID)
	if own == nil && d.before.Own(key.ID) == nil {
		differ = d.keys.get(key, d.differ)
	} else {
		differ = d.differ(settings.Target(key))
	}
	for _, k := range differ.Keys() {
		keys |= planeKeys[k]
	}
	if own != nil {
		d.bound[key.ID] = own.Keys() & differ
	}
	return keys, ""
}

// differ is the keys of which something else is in force afterwards.
func (d *difference) differ(target settings.Target) settings.KeySet {
	before, next := d.before.Resolve(target), d.next.Resolve(target)
	return before.Differ(&next)
}

func (d *difference) finish(effects []dataplane.Effect) []dataplane.Effect {
	for i := range effects {
		if d.bound[effects[i].ConnID] != 0 {
			endsWithConnection(&effects[i])
		}
	}
	return effects
}
