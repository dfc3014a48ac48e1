package referee

import "slices"

// Rule is one requirement of the specifications that an observer can check.
type Rule struct {
	Name    string
	Section string // specification and section
	Text    string // the requirement, in a sentence
}

// Rules lists all rules, as in docs/referee.md.
func Rules() []Rule { return slices.Concat(rules1, rules2) }

// ruleNamed returns the rule with the name. It panics if there is none.
func ruleNamed(name string) Rule {
	for _, rules := range [][]Rule{rules1, rules2} {
		if i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name }); i >= 0 {
			return rules[i]
		}
	}
	panic("referee: no rule " + name)
}
