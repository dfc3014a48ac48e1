package settings

import (
	"fmt"
	"strings"
)

// check looks at what can be said of a change without a state.
func (c *Change) check() error {
	if c.Keys() == 0 {
		return invalid("settings", "nothing to change")
	}
	if both := c.Set.Keys() & c.Unset; both != 0 {
		return invalid(both.Keys()[0].String(), "is set and unset at once")
	}
	for _, k := range c.Unset.Keys() {
		if reason := keys[k].missing; reason != "" {
			return &UnavailableError{Key: k.String(), Reason: reason}
		}
	}
	return checkValues(&c.Set)
}

// checkValues holds every value against its key: first whether it may be set
// at all, then all ranges.
func checkValues(v *Values) error {
	if k, reason := v.unavailable(); reason != "" {
		return &UnavailableError{Key: k.String(), Reason: reason}
	}
	var bad []Violation
	for _, k := range v.Keys().Keys() {
		if text := k.outOfRange(v.v[k]); text != "" {
			bad = append(bad, Violation{Field: k.String(), Text: text})
		}
	}
	if bad != nil {
		return &InvalidError{Violations: bad}
	}
	return nil
}

// unavailable finds the first value that nothing implements.
func (v *Values) unavailable() (Key, string) {
	for _, k := range v.Keys().Keys() {
		if keys[k].missing != "" {
			return k, keys[k].missing
		}
	}
	return 0, ""
}

// outOfRange says what k allows when value isn't that, else "".
func (k Key) outOfRange(value uint32) string {
	info := &keys[k]
	switch info.kind {
	case flag:
		if value > 1 {
			return "must be on or off"
		}
	case choice:
		if uint64(value) >= uint64(len(info.choices)) {
			return "must be " + alternatives(info.choices)
		}
	case number:
		if value < info.min || value > info.max {
			return fmt.Sprintf("must be between %d and %d %s (is %d)", info.min, info.max, info.unit, value)
		}
		if info.multiple != 0 && value%info.multiple != 0 {
			return fmt.Sprintf("must be a multiple of %d %s between %d and %d (is %d)",
				info.multiple, info.unit, info.min, info.max, value)
		}
	}
	return ""
}

// alternatives names choices for a message.
func alternatives(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// checkSize bounds the scopes.
func (s *State) checkSize() error {
	n := 0
	for scope := range s.layers {
		if scope.Kind == Listener || scope.Kind == Peer {
			n++
		}
	}
	if n > MaxScopes {
		return &LimitError{What: "listener and peer scopes with settings; unset those of some first", Limit: MaxScopes}
	}
	return nil
}

// combinations lists the chains of scopes that can come together on a
// connection and say something about keys.
func (s *State) combinations(keys KeySet) [][]Scope {
	listeners, peers := [][]Scope{nil}, [][]Scope{nil}
	var all [][]Scope
	for scope, l := range s.layers {
		switch {
		case l.Values.Keys()&keys == 0:
		case scope.Kind == Listener:
			listeners = append(listeners, []Scope{scope})
		case scope.Kind == Connection:
			all = append(all, s.chain(nil, l.target))
		}
	}
	for i, inner := range s.peers {
		if s.layers[inner].Values.Keys()&keys == 0 {
			continue
		}
		var chain []Scope
		for _, outer := range s.peers[:i+1] {
			if contains(outer.Prefix, inner.Prefix) {
				chain = append(chain, outer)
			}
		}
		peers = append(peers, chain)
	}
	wide := s.present(nil, Scope{})
	for _, l := range listeners {
		for _, p := range peers {
			chain := make([]Scope, 0, len(wide)+len(l)+len(p))
			all = append(all, append(append(append(chain, wide...), l...), p...))
		}
	}
	return all
}
