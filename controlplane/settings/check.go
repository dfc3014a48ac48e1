package settings

import (
	"maps"
	"net/netip"
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
	if n := len(s.narrow()); n > MaxScopes {
		return &LimitError{What: "listener and peer scopes with settings; unset those of some first", Limit: MaxScopes}
	}
	return nil
}

// narrow are the listener and peer scopes that say something.
func (s *State) narrow() map[Scope]struct{} {
	all := make(map[Scope]struct{}, len(s.layers)+len(s.assigned)+len(s.under))
	for _, layers := range []map[Scope]*layer{s.under, s.assigned, s.layers} {
		for scope := range layers {
			if scope.Kind != Global {
				all[scope] = struct{}{}
			}
		}
	}
	return all
}

// peersAround appends the layers of the prefixes that hold one, itself included.
func (s *State) peersAround(chain []*layer, inner netip.Prefix) []*layer {
	for _, p := range s.peers {
		if contains(p.scope.Prefix, inner) {
			chain = append(chain, p)
		}
	}
	return chain
}

// combinations lists the chains of layers that can come together on a
// connection without settings of its own and say something about keys, in order.
func (s *State) combinations(keys KeySet) [][]*layer {
	listeners, peers := [][]*layer{nil}, [][]*layer{nil}
	about := slices.DeleteFunc(slices.Collect(maps.Keys(s.narrow())), func(scope Scope) bool {
		return !slices.ContainsFunc(s.present(nil, scope), func(l *layer) bool { return l.Values.Keys()&keys != 0 })
	})
	slices.SortFunc(about, compareScopes)
	for _, scope := range about {
		if scope.Kind == Listener {
			listeners = append(listeners, s.present(nil, scope))
		} else {
			peers = append(peers, s.peersAround(nil, scope.Prefix))
		}
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
