package settings

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// fleet is the source of values that the fleet's policies give.
const fleet = "fleet"

// FleetLayer has the settings of a fleet's policies. At each scope they override the
// configuration file, and values of operators override them.
type FleetLayer struct {
	// Cluster and Assignment are the etcd cluster that the layer comes from and the
	// revision of its assignment there; 0 without a layer.
	Cluster    uint64                `json:"cluster,omitempty"`
	Assignment int64                 `json:"assignment,omitempty"`
	Scopes     map[Scope]FleetValues `json:"scopes,omitempty"`
	// TakenBack is a later assignment that was in force and was not confirmed; 0 without one.
	TakenBack int64 `json:"taken_back,omitempty"`
}

// FleetValues are the policies' values at a scope.
type FleetValues struct {
	Values   Values             `json:"values,omitzero"`
	Policies live.ByKey[string] `json:"policies,omitzero"` // that give each value, as NAME@REVISION
}

// FleetDelta is the change of the fleet's layer by one revision.
type FleetDelta struct {
	Before FleetLayer `json:"before"`
	After  FleetLayer `json:"after"`
}

// Equal reports whether two layers are the same.
func (f *FleetLayer) Equal(g *FleetLayer) bool {
	return f.Cluster == g.Cluster && f.Assignment == g.Assignment && f.TakenBack == g.TakenBack && f.Same(g)
}

// Same reports whether two layers have the same values.
func (f *FleetLayer) Same(g *FleetLayer) bool { return maps.Equal(f.Scopes, g.Scopes) }

// Differ returns the keys that differ between two layers, at any scope.
func (f *FleetLayer) Differ(g *FleetLayer) (changed KeySet) {
	for _, scope := range eitherScopes(f.Scopes, g.Scopes) {
		before, now := g.Scopes[scope].Values, f.Scopes[scope].Values
		changed |= now.Differ(&before)
	}
	return changed
}

func (f *FleetLayer) check() error {
	for scope, v := range f.Scopes {
		if scope.Kind == Connection {
			return live.Invalid("scope", "%s: a fleet gives settings at global, listener and peer scopes", scope)
		}
		if err := v.Values.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Fleet returns the fleet's layer in force.
func (s *State) Fleet() FleetLayer { return s.fleet }

// WithFleet returns s with another layer of the fleet, under the next revision. An
// *InvalidError lists all mistakes.
func (s *State) WithFleet(f FleetLayer) (*State, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return s.succeeded(s.withFleet(f), f.Differ(&s.fleet))
}

func (s *State) withFleet(f FleetLayer) *State {
	next := *s
	next.fleet = f
	next.assigned = make(map[Scope]*layer, len(f.Scopes))
	for scope, v := range f.Scopes {
		next.assigned[scope] = &layer{Layer: Layer{Values: v.Values}, scope: scope, policies: &v.Policies}
	}
	next.sortPeers()
	return &next
}

// FleetDifferences lists the values in force that next, with another layer of the fleet, would
// change at the scopes of the two layers.
func (s *State) FleetDifferences(next *State) (all []Difference) {
	for _, scope := range eitherScopes(next.fleet.Scopes, s.fleet.Scopes) {
		was, is := s.fleet.Scopes[scope].Values, next.fleet.Scopes[scope].Values
		before, after := s.At(scope, Target{}).Values, next.At(scope, Target{}).Values
		for _, k := range (is.Differ(&was) & after.Differ(&before)).Keys() {
			all = append(all, Difference{Place: scope.String(), Key: k, Before: before.Format(k), After: after.Format(k)})
		}
	}
	return all
}

// TakeBack returns s with the fleet's layer from before a step that was not confirmed, at the
// same revision.
func (s *State) TakeBack(d *FleetDelta) *State {
	f := d.Before
	f.TakenBack = d.After.Assignment
	return s.withFleet(f)
}

// Pin is a value of operators that overrides another value of the fleet, at the same scope.
type Pin struct {
	Scope  Scope
	Key    Key
	Value  string // in force
	Fleet  string // that the policy gives
	Policy string // NAME@REVISION
}

// String returns the pin in one line.
func (p Pin) String() string {
	return p.Scope.String() + ": " + p.Key.String() + " is " + p.Value + ", policy " + p.Policy + " gives " + p.Fleet
}

// Pins lists the values of operators that override other values of the fleet, by scope and key.
func (s *State) Pins() (all []Pin) {
	for scope, given := range s.assigned {
		own := s.Layer(scope)
		for _, k := range (own.Values.Keys() & given.Values.Keys()).Keys() {
			if own.Values.Value(k) != given.Values.Value(k) {
				all = append(all, Pin{scope, k, own.Values.Format(k), given.Values.Format(k), given.policies[k]})
			}
		}
	}
	slices.SortFunc(all, func(a, b Pin) int {
		return cmp.Or(compareScopes(a.Scope, b.Scope), strings.Compare(a.Key.String(), b.Key.String()))
	})
	return all
}
