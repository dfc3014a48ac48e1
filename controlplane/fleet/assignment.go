package fleet

import (
	"maps"
	"slices"
	"strings"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// Newest returns the newest version of each policy, in the order of names.
func Newest(all []*Revision) []*Revision {
	newest := make(map[string]*Revision)
	for _, r := range all {
		if old := newest[r.Name]; old == nil || old.Revision < r.Revision {
			newest[r.Name] = r
		}
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b *Revision) int { return strings.Compare(a.Name, b.Name) })
}

// Assign returns the versions for a node with these labels: those whose policies select it and
// give settings. They apply in this order, and the last one wins.
func Assign(newest []*Revision, l Labels) []Ref {
	var out []Ref
	for _, r := range inOrder(newest) {
		if len(r.Settings) > 0 && r.Selector.Matches(l) {
			out = append(out, r.Ref())
		}
	}
	return out
}

// Layer combines the settings of versions into one layer of a node's settings.
func Layer(all []*Revision) settings.FleetLayer {
	layer := settings.FleetLayer{}
	for _, r := range inOrder(all) {
		for scope, v := range r.Settings {
			if v.Keys() == 0 {
				continue
			}
			if layer.Scopes == nil {
				layer.Scopes = make(map[settings.Scope]settings.FleetValues)
			}
			sum := layer.Scopes[scope]
			sum.Values.Overlay(&v)
			for _, k := range v.Keys().Keys() {
				sum.Policies[k] = r.Ref().String()
			}
			layer.Scopes[scope] = sum
		}
	}
	return layer
}
