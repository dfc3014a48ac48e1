package settings

import "fmt"

// rule is what the settings of one connection must keep to together.
type rule struct {
	keys   KeySet // that it is about
	broken func(*Values) bool
	// blame names the setting to complain of, and says why.
	blame func(changed KeySet, e *Effective) (Key, string)
}

// rules are all there are.
var rules = []rule{
	{
		KeySet(0).With(CreditsMin).With(CreditsMax),
		func(v *Values) bool { return v.v[CreditsMin] > v.v[CreditsMax] },
		blameCredits,
	},
	needsVersion2(ExtensionCharacteristics),
	needsVersion2(ExtensionXmit),
	needsVersion2(ExtensionContinuation),
	needsVersion2(ExtensionSendDDP),
	needs(ExtensionXmit, ExtensionCharacteristics, "tells whether the peer takes transmissions"),
	needs(ExtensionContinuation, ExtensionXmit, "is what messages are continued with"),
	needs(ExtensionSendDDP, ExtensionXmit, "is what items are placed with"),
}

func blameCredits(changed KeySet, e *Effective) (Key, string) {
	k := CreditsMin
	if !changed.Has(k) {
		k = CreditsMax
	}
	return k, fmt.Sprintf("credits.min %d (%s) would be above credits.max %d (%s)",
		e.Values.v[CreditsMin], e.Origins[CreditsMin].Source,
		e.Values.v[CreditsMax], e.Origins[CreditsMax].Source)
}

// needsVersion2 is the rule of an extension that version 1 does not have.
func needsVersion2(k Key) rule {
	return rule{
		KeySet(0).With(k).With(ExtensionV2),
		func(v *Values) bool { return v.Flag(k) && v.v[ExtensionV2] == V2Off },
		func(changed KeySet, e *Effective) (Key, string) {
			blamed := k
			if !changed.Has(k) {
				blamed = ExtensionV2
			}
			return blamed, fmt.Sprintf("%s on (%s) needs version 2, and extensions.v2 would be off (%s)",
				k, e.Origins[k].Source, e.Origins[ExtensionV2].Source)
		},
	}
}

// needs is the rule of an extension that is built on another, and why.
func needs(k, base Key, why string) rule {
	return rule{
		KeySet(0).With(k).With(base),
		func(v *Values) bool { return v.Flag(k) && !v.Flag(base) },
		func(changed KeySet, e *Effective) (Key, string) {
			blamed := k
			if !changed.Has(k) {
				blamed = base
			}
			return blamed, fmt.Sprintf("%s on (%s) needs %s, which %s and would be off (%s)",
				k, e.Origins[k].Source, base, why, e.Origins[base].Source)
		},
	}
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
	return invalid(k.String(), "%s", why)
}
