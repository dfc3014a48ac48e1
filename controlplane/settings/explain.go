package settings

// Saying is the value of a key at one place.
type Saying struct {
	Origin
	Value string // as the command line takes it
	Wins  bool   // whether it is the one in force
}

// Explain lists all values of k at a scope, the widest first: the default, the configuration file,
// scopes. The last one is in force. t is the connection of a connection's scope.
func (s *State) Explain(k Key, scope Scope, t Target) []Saying {
	var out []Saying
	if s.defaults.Keys().Has(k) {
		out = append(out, Saying{Origin: Origin{Source: "default"}, Value: s.defaults.Format(k)})
	}
	if s.file.Values.Keys().Has(k) {
		out = append(out, Saying{Origin: s.baseOrigin(k), Value: s.file.Values.Format(k)})
	}
	for _, l := range s.chainAt(scope, t) {
		if l.Values.Keys().Has(k) {
			out = append(out, Saying{Origin: s.origin(l, k), Value: l.Values.Format(k)})
		}
	}
	if len(out) > 0 {
		out[len(out)-1].Wins = true
	}
	return out
}
