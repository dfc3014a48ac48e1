package settings

// Saying is the value of a key at one place.
type Saying struct {
	Origin
	Value string // as the command line takes it
	Wins  bool   // whether it is the one in force
}

// Explain lists all values of k for t, the widest first: the default, the configuration file,
// scopes. The last one is in force.
func (s *State) Explain(k Key, t Target) []Saying { return s.sayings(k, s.chain(nil, t)) }

// ExplainAt is Explain for a scope that is not a connection's, as far as it follows from the
// scope alone.
func (s *State) ExplainAt(k Key, scope Scope) []Saying { return s.sayings(k, s.chainAt(scope)) }

func (s *State) sayings(k Key, chain []*layer) []Saying {
	var out []Saying
	if s.defaults.Keys().Has(k) {
		out = append(out, Saying{Origin: Origin{Source: "default"}, Value: s.defaults.Format(k)})
	}
	if s.file.Values.Keys().Has(k) {
		out = append(out, Saying{Origin: s.baseOrigin(k), Value: s.file.Values.Format(k)})
	}
	for _, l := range chain {
		if l.Values.Keys().Has(k) {
			out = append(out, Saying{Origin: s.origin(l, k), Value: l.Values.Format(k)})
		}
	}
	if len(out) > 0 {
		out[len(out)-1].Wins = true
	}
	return out
}
