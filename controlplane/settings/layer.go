package settings

import (
	"errors"
	"slices"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Layer is what one scope says.
type Layer struct {
	Values Values             `json:"values,omitzero"`
	Set    live.ByKey[uint32] `json:"set,omitzero"` // revision that gave each value; 0 without a value
}

// Delta is how one revision changed a scope. A zero Layer says nothing.
type Delta struct {
	Scope  Scope  `json:"scope"`
	Target Target `json:"-"` // the connection, when Scope is a connection's
	Before Layer  `json:"before"`
	After  Layer  `json:"after"`
}

// FileDelta is how one revision changed the configuration file's layer.
type FileDelta struct {
	Before FileLayer `json:"before"`
	After  FileLayer `json:"after"`
}

// Step is all that one revision changed.
type Step struct {
	Deltas []Delta    `json:"deltas,omitempty"` // in the order of scopes
	File   *FileDelta `json:"file,omitempty"`   // nil when the file's layer stayed
	// Fleet is nil when the fleet's layer stayed.
	Fleet *FleetDelta `json:"fleet,omitempty"`
}

// Diff is the step from s to next.
func (s *State) Diff(next *State) Step {
	var step Step
	addLayers(&step, s.layers, next.layers)
	if s.own != next.own {
		addLayers(&step, s.own.layers, next.own.layers)
	}
	slices.SortFunc(step.Deltas, func(a, b Delta) int { return compareScopes(a.Scope, b.Scope) })
	if !s.file.Equal(&next.file) {
		step.File = &FileDelta{Before: s.file, After: next.file}
	}
	if !s.fleet.Equal(&next.fleet) {
		step.Fleet = &FleetDelta{Before: s.fleet, After: next.fleet}
	}
	return step
}

// addLayers adds to the step what differs between two sets of layers.
func addLayers[K comparable](step *Step, before, after map[K]*layer) {
	for k, l := range before {
		if now := after[k]; now != l {
			step.add(l, now)
		}
	}
	for k, l := range after {
		if before[k] == nil {
			step.add(nil, l)
		}
	}
}

func (s *Step) add(before, after *layer) {
	var d Delta
	if before != nil {
		d.Scope, d.Before, d.Target = before.scope, before.Layer, before.target
	}
	if after != nil {
		d.Scope, d.After, d.Target = after.scope, after.Layer, after.target
	}
	if d.Before != d.After {
		s.Deltas = append(s.Deltas, d)
	}
}

// Undo is s with step undone, at the same revision. Scopes of connections that
// alive doesn't know stay without settings. The fleet's layer stays: TakeBack
// gives that back.
func (s *State) Undo(step Step, alive func(id string) bool) *State {
	next := s
	for _, d := range step.Deltas {
		if d.Scope.Kind == Connection && !alive(d.Scope.Name) {
			continue
		}
		next = next.replace(d.Scope, &layer{Layer: d.Before, target: d.Target})
	}
	if step.File != nil {
		next = next.withFile(step.File.Before)
	}
	return next
}

// Advance is s under the next revision, checked whole: for states that didn't
// come about by Apply.
func (s *State) Advance() (*State, error) {
	if err := s.checkRevision(); err != nil {
		return nil, err
	}
	next := *s
	next.revision++
	return &next, next.checkWhole()
}

// checkWhole holds a state that was put together against all rules.
func (s *State) checkWhole() error {
	if err := s.checkSize(); err != nil {
		return err
	}
	return s.checkTogether(s.base.Keys(), nil)
}

// Has says whether a scope says anything.
func (s *State) Has(scope Scope) bool { return s.at(scope) != nil }

// Layer is what a scope says.
func (s *State) Layer(scope Scope) Layer {
	if l := s.at(scope); l != nil {
		return l.Layer
	}
	return Layer{}
}

// Layers are what the scopes say that outlive connections: all but those of
// connections.
func (s *State) Layers() map[Scope]Layer {
	out := make(map[Scope]Layer, len(s.layers))
	for scope, l := range s.layers {
		out[scope] = l.Layer
	}
	return out
}

// Restore is the state that Layers, File, Fleet and Revision were taken from, over
// s's defaults. It is checked as if it were new.
func (s *State) Restore(revision uint32, file FileLayer, fleet FleetLayer, layers map[Scope]Layer) (*State, error) {
	next := &State{revision: revision, defaults: s.defaults, layers: make(map[Scope]*layer, len(layers)), own: noOwners}
	if err := errors.Join(file.check(), fleet.check()); err != nil {
		return nil, err
	}
	for scope, l := range layers {
		if err := l.Values.Check(); err != nil {
			return nil, err
		}
		next.layers[scope] = &layer{Layer: l, scope: scope}
	}
	next = next.withFile(file).withFleet(fleet)
	return next, next.checkWhole()
}
