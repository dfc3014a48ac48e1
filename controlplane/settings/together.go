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

// checkTogether holds the values that bound each other against each other,
// in every combination of scopes that a connection can meet, if one of them
// is among changed. The message names the values' origins.
func (s *State) checkTogether(changed KeySet) error {
	for _, r := range rules {
		if changed&r.keys == 0 {
			continue
		}
		for _, chain := range s.combinations(r.keys) {
			v := s.base
			for _, scope := range chain {
				v.Overlay(&s.layers[scope].Values)
			}
			if r.broken(&v) {
				e := s.explain(chain)
				k, why := r.blame(changed, &e)
				return invalid(k.String(), "%s", why)
			}
		}
	}
	return nil
}
