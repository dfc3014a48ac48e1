package settings

import (
	"maps"
	"slices"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Dump has all settings of all scopes except connections.
type Dump struct {
	Revision uint32 `json:"revision"`
	// Base has the values in force below the scopes: defaults, overridden by the configuration
	// file's values.
	Base Values `json:"base"`
	// Scopes are in the order of scopes. Their values include the fleet's, and those of the
	// configuration file at a narrower scope.
	Scopes []ScopeDump `json:"scopes"`
}

// ScopeDump has the values of one scope.
type ScopeDump struct {
	Scope  Scope  `json:"scope"`
	Values Values `json:"values"`
}

// Dump returns the dump of a state.
func (s *State) Dump() Dump {
	d := Dump{Revision: s.revision, Base: s.base}
	all := s.narrow()
	if s.present(nil, Scope{}) != nil {
		all[Scope{}] = struct{}{}
	}
	for _, scope := range slices.SortedFunc(maps.Keys(all), compareScopes) {
		var v Values
		for _, l := range s.present(nil, scope) {
			v.Overlay(&l.Values)
		}
		d.Scopes = append(d.Scopes, ScopeDump{Scope: scope, Values: v})
	}
	return d
}

// Load returns s with the settings of a dump at all scopes except connections, under the next
// revision. If the dump's base differs from that of s with the fleet's values, global settings make
// up for the difference: the values in force are the same as in the rdmad that made the dump. A value that
// s already has keeps its origin. At a scope narrower than global, a value that only the
// configuration file gives remains the file's, and one that only the fleet gives the fleet's. A
// value of the file stays in force if the dump does not name it.
func (s *State) Load(d *Dump) (*State, error) {
	wanted := make(map[Scope]Values)
	for _, one := range d.Scopes {
		if _, twice := wanted[one.Scope]; twice || one.Scope.Kind == Connection {
			return nil, live.Invalid("scope", "%s: a dump has each global, listener and peer scope once and no connection's", one.Scope)
		}
		wanted[one.Scope] = one.Values
	}
	global, given := wanted[Scope{}], s.base
	if l := s.assigned[Scope{}]; l != nil {
		given.Overlay(&l.Values)
	}
	global.Overlay(new(d.Base.Only(d.Base.Differ(&given) & d.Base.Keys() &^ global.Keys())))
	wanted[Scope{}] = global
	next, err := s.become(wanted)
	if err != nil {
		return nil, err
	}
	return next.Advance()
}

// Import returns s with the values of a configuration file at the global scope, unless values
// is nil, and at the listener and peer scopes, unless scopes is nil. A key that values does not
// have gets its default, unless the fleet gives it. The rest is as in Load: a value of s's own
// configuration file at a narrower scope stays in force if scopes does not name it.
func (s *State) Import(values *Values, scopes map[Scope]Values) (*State, error) {
	wanted := make(map[Scope]Values)
	for scope, l := range s.Layers() {
		if scope.Kind == Global || scopes == nil {
			wanted[scope] = l.Values
		}
	}
	maps.Copy(wanted, scopes)
	if values != nil {
		all, given, others := s.defaults, s.base, KeySet(0)
		all.Overlay(values)
		if l := s.assigned[Scope{}]; l != nil {
			given.Overlay(&l.Values)
			others = l.Values.Keys() &^ values.Keys()
		}
		wanted[Scope{}] = all.Only(all.Differ(&given) &^ others)
	}
	next, err := s.become(wanted)
	if err != nil {
		return nil, err
	}
	return s.succeeded(next, s.base.Keys())
}

// become is s with other values at all scopes except connections, not checked as a whole.
func (s *State) become(wanted map[Scope]Values) (*State, error) {
	next := new(*s)
	for scope := range s.Layers() {
		if _, ok := wanted[scope]; !ok {
			next = next.replace(scope, nil)
		}
	}
	for _, scope := range slices.SortedFunc(maps.Keys(wanted), compareScopes) {
		v := wanted[scope]
		if err := v.Check(); err != nil {
			return nil, err
		}
		v = s.beyondOthers(scope, v)
		l := s.Layer(scope).became(v, s.revision+1)
		next = next.replace(scope, &layer{Layer: l})
	}
	return next, nil
}

// beyondOthers are the values that a scope is to have, but for those that only the
// configuration file or the fleet give there.
func (s *State) beyondOthers(scope Scope, wanted Values) Values {
	var given Values
	for _, layers := range []map[Scope]*layer{s.under, s.assigned} {
		if l := layers[scope]; l != nil {
			given.Overlay(&l.Values)
		}
	}
	own := s.Layer(scope)
	return wanted.Only(given.Differ(&wanted) | own.Values.Keys())
}

// became is a layer that says v from a revision on, and remembers who said
// what it says already.
func (l Layer) became(v Values, revision uint32) Layer {
	out := Layer{Values: v}
	for _, k := range v.Keys().Keys() {
		out.Set[k] = revision
		if old, ok := l.Values.Get(k); ok && old == v.Value(k) {
			out.Set[k] = l.Set[k]
		}
	}
	return out
}
