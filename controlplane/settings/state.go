package settings

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// MaxScopes bounds the listener and peer scopes that hold settings.
// Connection scopes are bounded by the connections there are.
const MaxScopes = 256

// State is all desired settings at one revision. It is immutable.
type State struct {
	revision uint32
	defaults Values // built in
	file     FileLayer
	base     Values // defaults under the configuration file's
	layers   map[Scope]*layer
	peers    []*layer // those of layers, shortest prefix first
	own      *owners  // layers of connections; shared by states that differ elsewhere
}

// layer is what one scope says, and of a connection's scope the connection.
type layer struct {
	Layer
	scope  Scope
	target Target
}

// owners are the layers of connections, by id. There may be as many as
// connections, and most changes are about none of them.
type owners struct{ layers map[string]*layer }

var noOwners = &owners{layers: map[string]*layer{}}

// NewState is revision 0: base with nothing changed. Base must have a value
// for every key that is available; configured names those that don't come
// from the built-in defaults.
func NewState(base Values, configured KeySet) (*State, error) {
	if err := base.Check(); err != nil {
		return nil, err
	}
	defaults, builtin := base, live.Default()
	under := live.Of(&builtin)
	under = under.Only(configured)
	defaults.Overlay(&under)
	s := &State{defaults: defaults, layers: map[Scope]*layer{}, own: noOwners}
	s = s.withFile(FileLayer{Values: base.Only(configured)})
	if err := s.checkTogether(base.Keys(), nil); err != nil {
		return nil, err
	}
	return s, nil
}

// Revision counts the changes since the start.
func (s *State) Revision() uint32 { return s.revision }

// Origin says where a value comes from.
type Origin struct {
	Source   string // default, config, or the scope that says it
	Revision uint32 // that set it; 0 for default and config
	Detail   string // of config: FILE:LINE, where it is known; else ""
}

// Effective is what is in force somewhere.
type Effective struct {
	Values  Values
	Origins [live.NumKeys]Origin
}

// Resolve is what is in force on t.
func (s *State) Resolve(t Target) Values {
	var buf [usualChain]*layer
	v := s.base
	for _, l := range s.chain(buf[:0], t) {
		v.Overlay(&l.Values)
	}
	return v
}

// Effective is Resolve with origins.
func (s *State) Effective(t Target) Effective { return s.explain(s.chain(nil, t)) }

// At is what is in force at a scope that is not a connection's, as far as
// the scope alone can tell.
func (s *State) At(scope Scope) Effective { return s.explain(s.chainAt(scope)) }

// chainAt is chain for a scope that is not a connection's.
func (s *State) chainAt(scope Scope) []*layer {
	chain := s.present(nil, Scope{})
	switch scope.Kind {
	case Listener:
		chain = s.present(chain, scope)
	case Peer:
		for _, p := range s.peers {
			if contains(p.scope.Prefix, scope.Prefix) {
				chain = append(chain, p)
			}
		}
	}
	return chain
}

// usualChain is how many scopes speak for a connection without more than two
// peer scopes that hold each other. Settings are resolved for every connection
// at every change, which is not to cost memory.
const usualChain = 5

// chain lists the layers that speak for t, the widest scope first, behind an
// empty chain.
func (s *State) chain(chain []*layer, t Target) []*layer {
	chain = s.present(chain, Scope{})
	chain = s.present(chain, Scope{Kind: Listener, Name: t.Listener})
	addr := plain(t.Peer)
	for _, p := range s.peers {
		if p.scope.Prefix.Contains(addr) {
			chain = append(chain, p)
		}
	}
	return s.present(chain, Scope{Kind: Connection, Name: t.ID})
}

// at is the layer of a scope; nil when the scope says nothing.
func (s *State) at(scope Scope) *layer {
	if scope.Kind == Connection {
		return s.own.layers[scope.Name]
	}
	return s.layers[scope]
}

// present appends the layer of scope to chain if there is one.
func (s *State) present(chain []*layer, scope Scope) []*layer {
	if l := s.at(scope); l != nil {
		chain = append(chain, l)
	}
	return chain
}

func (s *State) explain(chain []*layer) Effective {
	e := Effective{Values: s.base}
	for k := range live.NumKeys {
		e.Origins[k] = s.baseOrigin(k)
	}
	for _, l := range chain {
		e.Values.Overlay(&l.Values)
		for _, k := range l.Values.Keys().Keys() {
			e.Origins[k] = Origin{Source: l.scope.String(), Revision: l.Set[k]}
		}
	}
	return e
}

// baseOrigin is where the value below all scopes comes from.
func (s *State) baseOrigin(k Key) Origin {
	if !s.file.Values.Keys().Has(k) {
		return Origin{Source: "default"}
	}
	o := Origin{Source: "config"}
	if s.file.Lines[k] > 0 {
		o.Detail = s.file.Name + ":" + strconv.Itoa(s.file.Lines[k])
	}
	return o
}

// Connections lists the connections that have settings of their own.
func (s *State) Connections() []string { return slices.Collect(maps.Keys(s.own.layers)) }

// Own is what a connection's own scope says; nil when it says nothing. It is
// not to be changed.
func (s *State) Own(id string) *Values {
	if l := s.own.layers[id]; l != nil {
		return &l.Values
	}
	return nil
}

// Forget is the state without the settings of a connection that has ended.
// The revision stays: nobody decided anything.
func (s *State) Forget(id string) *State {
	scope := Scope{Kind: Connection, Name: id}
	if s.at(scope) == nil {
		return s
	}
	return s.replace(scope, nil)
}

// replace is the state with l, which it then owns, as the layer at scope, or
// with none if it is nil or empty.
func (s *State) replace(scope Scope, l *layer) *State {
	next := *s
	switch {
	case l == nil:
	case l.Values.Keys() == 0:
		l = nil
	default:
		l.scope = scope
	}
	if scope.Kind == Connection {
		next.own = &owners{replaced(s.own.layers, scope.Name, l)}
		return &next
	}
	next.layers = replaced(s.layers, scope, l)
	if scope.Kind == Peer {
		next.peers = sortedPeers(next.layers)
	}
	return &next
}

// replaced is a copy of layers with another one under a key, or none.
func replaced[K comparable](layers map[K]*layer, k K, l *layer) map[K]*layer {
	next := maps.Clone(layers)
	if l == nil {
		delete(next, k)
	} else {
		next[k] = l
	}
	return next
}

func sortedPeers(layers map[Scope]*layer) []*layer {
	var peers []*layer
	for _, l := range layers {
		if l.scope.Kind == Peer {
			peers = append(peers, l)
		}
	}
	slices.SortFunc(peers, func(a, b *layer) int { return compareScopes(a.scope, b.scope) })
	return peers
}

// compareScopes orders wider scopes first, equal ones by name.
func compareScopes(a, b Scope) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name),
		cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()), a.Prefix.Addr().Compare(b.Prefix.Addr()))
}

// contains says whether a prefix lies within another.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
