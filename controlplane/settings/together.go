package settings

import (
	"fmt"

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
	for i := range rules {
		r := &rules[i]
		switch {
		case changed&r.keys == 0:
			continue
		case c != nil && c.Scope.Kind == Connection:
			if err := s.keeps(r, changed, c.Target); err != nil {
				return err
			}
			continue
		}
		for _, chain := range s.combinations(r.keys) {
			if err := s.keepsOn(r, changed, chain); err != nil {
				return err
			}
		}
		for _, l := range s.own.layers {
			if l.Values.Keys()&r.keys == 0 {
				continue
			}
			if err := s.keeps(r, changed, l.target); err != nil {
				return err
			}
		}
	}
	return nil
}

// keeps says whether a connection keeps to a rule.
func (s *State) keeps(r *rule, changed KeySet, t Target) error {
	var buf [usualChain]*layer
	return s.keepsOn(r, changed, s.chain(buf[:0], t))
}

func (s *State) keepsOn(r *rule, changed KeySet, chain []*layer) error {
	v := s.base
	for _, l := range chain {
		v.Overlay(&l.Values)
	}
	if !r.broken(&v) {
		return nil
	}
	e := s.explain(chain)
	k, why := r.blame(changed, &e)
	return live.Invalid(k.String(), "%s", why)
}
