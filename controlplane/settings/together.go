package settings

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// rule is what the settings of one connection must keep to together.
type rule struct {
	keys   KeySet // that it is about
	broken func(*Values) bool
	// blame names the setting to complain of, and says why.
	blame func(changed KeySet, e *Effective) (Key, string)
}

// rules are those of the catalogue's rows.
var rules = func() (all []rule) {
	for k := range live.NumKeys {
		r := k.Row()
		for _, bound := range r.AtMost {
			all = append(all, atMost(k, bound))
		}
		for _, base := range r.Needs {
			all = append(all, needs(k, base))
		}
	}
	return all
}()

// atMost is the rule of a number that another bounds.
func atMost(k, bound Key) rule {
	return rule{
		KeySet(0).With(k).With(bound),
		func(v *Values) bool { return v.Value(k) > v.Value(bound) },
		func(changed KeySet, e *Effective) (Key, string) {
			return blamed(changed, k, bound), fmt.Sprintf("%s %d (%s) would be above %s %d (%s)",
				k, e.Values.Value(k), e.Origins[k].Source, bound, e.Values.Value(bound), e.Origins[bound].Source)
		},
	}
}

// needs is the rule of an extension that is built on another.
func needs(k, base Key) rule {
	return rule{
		KeySet(0).With(k).With(base),
		func(v *Values) bool { return v.On(k) && !v.On(base) },
		func(changed KeySet, e *Effective) (Key, string) {
			return blamed(changed, k, base), fmt.Sprintf("%s on (%s) needs %s, which would be off (%s)",
				k, e.Origins[k].Source, base, e.Origins[base].Source)
		},
	}
}

// blamed is the key that was changed of two that don't go together.
func blamed(changed KeySet, k, other Key) Key {
	if changed.Has(k) {
		return k
	}
	return other
}

// checkTogether holds the values that bound each other against each other,
// in every combination of scopes that a connection can meet, if one of them
// is among changed. When all that was changed is c (else nil), at a
// connection's scope, there is that connection to look at alone. The message
// names the values' origins.
func (s *State) checkTogether(changed KeySet, c *Change) error {
	for bad := range s.broken(changed, c) {
		return &InvalidError{Violations: []Violation{bad}}
	}
	return nil
}

// broken are the violations that checkTogether looks for. One may come more than once.
func (s *State) broken(changed KeySet, c *Change) iter.Seq[Violation] {
	return func(yield func(Violation) bool) {
		for i := range rules {
			r := &rules[i]
			if changed&r.keys == 0 {
				continue
			}
			for chain := range s.chains(r.keys, c) {
				if bad, ok := s.breaks(r, changed, chain); ok && !yield(bad) {
					return
				}
			}
		}
	}
}

// chains are those of the layers that can come together on a connection and say
// something about keys, always in the same order: of several violations the same one is found first each time.
func (s *State) chains(keys KeySet, c *Change) iter.Seq[[]*layer] {
	return func(yield func([]*layer) bool) {
		var buf [usualChain]*layer
		if c != nil && c.Scope.Kind == Connection {
			yield(s.chain(buf[:0], c.Target))
			return
		}
		for _, chain := range s.combinations(keys) {
			if !yield(chain) {
				return
			}
		}
		about := slices.DeleteFunc(slices.Collect(maps.Keys(s.own.layers)), func(id string) bool {
			return s.own.layers[id].Values.Keys()&keys == 0
		})
		slices.Sort(about)
		for _, id := range about {
			if !yield(s.chain(buf[:0], s.own.layers[id].target)) {
				return
			}
		}
	}
}

// breaks says whether a connection with a chain of layers breaks a rule.
func (s *State) breaks(r *rule, changed KeySet, chain []*layer) (bad Violation, ok bool) {
	v := s.base
	for _, l := range chain {
		v.Overlay(&l.Values)
	}
	if !r.broken(&v) {
		return Violation{}, false
	}
	e := s.explain(chain)
	k, why := r.blame(changed, &e)
	bad = Violation{Field: k.String(), Text: why}
	if scope := e.Origins[k].Scope; scope.Kind != Global {
		bad.Scope = scope.String()
	}
	if _, err := ParseScope(e.Origins[k].Source); err == nil {
		bad.Set = e.Origins[k].Source
	}
	return bad, true
}

// compareViolations orders them by scope, then by setting.
func compareViolations(a, b Violation) int {
	return cmp.Or(strings.Compare(a.Scope, b.Scope), strings.Compare(a.Field, b.Field), strings.Compare(a.Text, b.Text))
}
