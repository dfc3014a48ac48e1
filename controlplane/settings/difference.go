package settings

import "strings"

// Difference is a value that a revision changed.
type Difference struct {
	// Place is a scope. For the configuration file's layer it is "config", or "config SCOPE" at
	// a narrower scope; for the fleet's "fleet SCOPE".
	Place         string
	Key           Key
	Before, After string // as the command line takes them; "" for none
}

// Differences lists the changed values of the step: those of the file's layer, of the fleet's,
// then of scopes in order.
func (s *Step) Differences() (out []Difference) {
	add := func(place string, before, after *Values) {
		for _, k := range before.Differ(after).Keys() {
			out = append(out, Difference{Place: place, Key: k, Before: before.Format(k), After: after.Format(k)})
		}
	}
	if f := s.File; f != nil {
		add(config, &f.Before.Values, &f.After.Values)
		for _, scope := range eitherScopes(f.After.Scopes, f.Before.Scopes) {
			before, after := f.Before.Scopes[scope].Values, f.After.Scopes[scope].Values
			add(config+" "+scope.String(), &before, &after)
		}
	}
	if f := s.Fleet; f != nil {
		for _, scope := range eitherScopes(f.After.Scopes, f.Before.Scopes) {
			before, after := f.Before.Scopes[scope].Values, f.After.Scopes[scope].Values
			add(fleet+" "+scope.String(), &before, &after)
		}
	}
	for i := range s.Deltas {
		d := &s.Deltas[i]
		add(d.Scope.String(), &d.Before.Values, &d.After.Values)
	}
	return out
}

// Texts returns the values of the step before and after it, as KEY=VALUE, or KEY unset, each
// behind its place unless that is the global scope.
func (s *Step) Texts() (before, after string) {
	all := s.Differences()
	was, is := make([]string, len(all)), make([]string, len(all))
	for i, d := range all {
		was[i], is[i] = d.text(d.Before), d.text(d.After)
	}
	return strings.Join(was, " "), strings.Join(is, " ")
}

func (d *Difference) text(value string) string {
	text := d.Key.String() + " unset"
	if value != "" {
		text = d.Key.String() + "=" + value
	}
	if d.Place == (Scope{}).String() {
		return text
	}
	return d.Place + ":" + text
}
