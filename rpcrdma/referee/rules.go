package referee

import "slices"

// Rule is one demand of the texts that can be seen from outside.
type Rule struct {
	Name    string
	Section string // text and section
	Text    string // the demand, in a sentence
}

// Rules lists the rules, as in docs/referee.md.
func Rules() []Rule { return slices.Concat(rules1, rules2) }

// ruleNamed returns the rule of a name, which is one of ours.
func ruleNamed(name string) Rule {
	for _, rules := range [][]Rule{rules1, rules2} {
		if i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name }); i >= 0 {
			return rules[i]
		}
	}
	panic("referee: no rule " + name)
}
