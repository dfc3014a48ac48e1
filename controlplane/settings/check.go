package settings

import (
	"fmt"
	"slices"
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
		if scope.Kind != Global {
			n++
		}
	}
	if n > MaxScopes {
		return &LimitError{What: "listener and peer scopes with settings; unset those of some first", Limit: MaxScopes}
	}
	return nil
}

// combinations lists the chains of layers that can come together on a
// connection without settings of its own and say something about keys.
func (s *State) combinations(keys KeySet) [][]*layer {
	listeners, peers := [][]*layer{nil}, [][]*layer{nil}
	for scope, l := range s.layers {
		if scope.Kind == Listener && l.Values.Keys()&keys != 0 {
			listeners = append(listeners, []*layer{l})
		}
	}
	for i, inner := range s.peers {
		if inner.Values.Keys()&keys == 0 {
			continue
		}
		var chain []*layer
		for _, outer := range s.peers[:i+1] {
			if contains(outer.scope.Prefix, inner.scope.Prefix) {
				chain = append(chain, outer)
			}
		}
		peers = append(peers, chain)
	}
	all := make([][]*layer, 0, len(listeners)*len(peers))
	wide := s.present(nil, Scope{})
	for _, l := range listeners {
		for _, p := range peers {
			all = append(all, slices.Concat(wide, l, p))
		}
	}
	return all
}
