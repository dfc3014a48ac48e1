package settings

import (
	"slices"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// check looks at what can be said of a change without a state.
func (c *Change) check() error {
	if c.Keys() == 0 {
		return live.Invalid("settings", "nothing to change")
	}
	if both := c.Set.Keys() & c.Unset; both != 0 {
		return live.Invalid(both.Keys()[0].String(), "is set and unset at once")
	}
	return c.Set.Check()
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
