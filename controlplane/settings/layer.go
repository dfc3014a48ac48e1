package settings

import (
	"errors"
	"slices"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Layer has the values of one scope.
type Layer struct {
	Values Values             `json:"values,omitzero"`
	Set    live.ByKey[uint32] `json:"set,omitzero"` // revision that gave each value; 0 without a value
}

// Delta is the change of a scope by one revision. A zero Layer has no values.
type Delta struct {
	Scope  Scope  `json:"scope"`
	Target Target `json:"-"` // the connection, when Scope is a connection's
	Before Layer  `json:"before"`
	After  Layer  `json:"after"`
}

// FileDelta is the change of the configuration file's layer by one revision.
type FileDelta struct {
	Before FileLayer `json:"before"`
	After  FileLayer `json:"after"`
}

// Step is the whole change by one revision.
type Step struct {
	Deltas []Delta    `json:"deltas,omitempty"` // in the order of scopes
	File   *FileDelta `json:"file,omitempty"`   // nil when the file's layer stayed
	// Fleet is nil if the fleet's layer did not change.
	Fleet *FleetDelta `json:"fleet,omitempty"`
}

// Diff returns the step from s to next.
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

// Undo returns s with step undone, at the same revision. Scopes of connections that alive does
// not have stay without settings. The fleet's layer stays: TakeBack restores it.
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

// Advance returns s under the next revision, after a full check. It is for states that Apply
// did not make.
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

// Has reports whether a scope has values.
func (s *State) Has(scope Scope) bool { return s.at(scope) != nil }

// Layer returns the values of a scope.
func (s *State) Layer(scope Scope) Layer {
	if l := s.at(scope); l != nil {
		return l.Layer
	}
	return Layer{}
}

// Layers returns the values of all scopes except connections.
func (s *State) Layers() map[Scope]Layer {
	out := make(map[Scope]Layer, len(s.layers))
	for scope, l := range s.layers {
		out[scope] = l.Layer
	}
	return out
}

// Restore returns the state of which Layers, File, Fleet and Revision are parts, with the
// defaults of s. It checks the state like a new one.
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
