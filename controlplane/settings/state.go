package settings

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// MaxScopes limits the listener and peer scopes with settings. The number of connections limits
// connection scopes.
const MaxScopes = 256

// State is all desired settings at one revision. It is immutable.
type State struct {
	revision uint32
	defaults Values // built in
	file     FileLayer
	base     Values // defaults under the configuration file's
	layers   map[Scope]*layer
	under    map[Scope]*layer // the configuration file's at narrower scopes; those of assigned and layers win
	fleet    FleetLayer
	assigned map[Scope]*layer // the fleet's; those of layers win
	peers    []*layer         // those of all, shortest prefix first; of a prefix the file's, the fleet's, the operators'
	own      *owners          // layers of connections; shared by states that differ elsewhere
}

// layer is what one scope says, and of a connection's scope the connection.
type layer struct {
	Layer
	scope  Scope
	target Target
	lines  *live.ByKey[int] // of the configuration file that says it; nil when another does
	// policies of the fleet that give each value; nil when another does.
	policies *live.ByKey[string]
}

// owners are the layers of connections, by id. There may be as many as
// connections, and most changes are about none of them.
type owners struct{ layers map[string]*layer }

var noOwners = &owners{layers: map[string]*layer{}}

// NewState returns revision 0: base without changes. base must have a value for every available
// key. configured has the names of the keys whose values are not the built-in defaults.
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

// Builtin is revision 0 with the built-in defaults alone.
func Builtin() *State {
	defaults := live.Default()
	s, err := NewState(live.Of(&defaults), 0)
	if err != nil {
		panic(err) // the defaults go together
	}
	return s
}

// Revision counts the changes since the start.
func (s *State) Revision() uint32 { return s.revision }

// Origin is the place from which a value comes.
type Origin struct {
	Source   string // default, config, fleet, or the scope that says it
	Revision uint32 // that set it; 0 for default, config and fleet
	Detail   string // of config: FILE:LINE, where it is known; of fleet: POLICY@REVISION; else ""
	Scope    Scope  // of config and fleet: at which they say it
}

// Effective is a value in force.
type Effective struct {
	Values  Values
	Origins [live.NumKeys]Origin
}

// Resolve returns the values in force on t.
func (s *State) Resolve(t Target) Values {
	var buf [usualChain]*layer
	v := s.base
	for _, l := range s.chain(buf[:0], t) {
		v.Overlay(&l.Values)
	}
	return v
}

// At returns the values in force at a scope, with their origins: on t if the scope is a connection's, else
// as far as they follow from the scope alone.
func (s *State) At(scope Scope, t Target) Effective { return s.explain(s.chainAt(scope, t)) }

// chainAt lists the layers that speak at a scope, the widest first.
func (s *State) chainAt(scope Scope, t Target) []*layer {
	chain := s.present(nil, Scope{})
	switch scope.Kind {
	case Connection:
		return s.chain(nil, t)
	case Listener:
		chain = s.present(chain, scope)
	case Peer:
		chain = s.peersAround(chain, scope.Prefix)
	}
	return chain
}

// usualChain is how many scopes speak for a connection without more than two
// peer scopes that hold each other. Settings are resolved for every connection
// at every change, which is not to cost memory.
const usualChain = 8

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

// present appends the layers of scope to chain: the configuration file's, the fleet's, then
// the operators', as far as there are any.
func (s *State) present(chain []*layer, scope Scope) []*layer {
	for _, l := range [...]*layer{s.under[scope], s.assigned[scope], s.at(scope)} {
		if l != nil {
			chain = append(chain, l)
		}
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
			e.Origins[k] = s.origin(l, k)
		}
	}
	return e
}

// baseOrigin is where the value below all scopes comes from.
func (s *State) baseOrigin(k Key) Origin {
	if !s.file.Values.Keys().Has(k) {
		return Origin{Source: "default"}
	}
	return s.fileOrigin(Scope{}, s.file.Lines[k])
}

// origin is where a value of a layer comes from.
func (s *State) origin(l *layer, k Key) Origin {
	if l.lines != nil {
		return s.fileOrigin(l.scope, l.lines[k])
	}
	if l.policies != nil {
		return Origin{Source: fleet, Detail: l.policies[k], Scope: l.scope}
	}
	return Origin{Source: l.scope.String(), Revision: l.Set[k]}
}

// Connections lists the connections that have settings of their own.
func (s *State) Connections() []string { return slices.Collect(maps.Keys(s.own.layers)) }

// Own returns the values of a connection's own scope, or nil. It must not be changed.
func (s *State) Own(id string) *Values {
	if l := s.own.layers[id]; l != nil {
		return &l.Values
	}
	return nil
}

// Forget returns the state without the settings of a connection that has ended. The revision
// stays, because no operator changed anything.
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
		next.sortPeers()
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

// sortPeers makes peers of the layers.
func (s *State) sortPeers() {
	s.peers = nil
	for _, layers := range []map[Scope]*layer{s.under, s.assigned, s.layers} {
		for _, l := range layers {
			if l.scope.Kind == Peer {
				s.peers = append(s.peers, l)
			}
		}
	}
	// The sort is stable: at a scope the file's comes first, the operators' last.
	slices.SortStableFunc(s.peers, func(a, b *layer) int { return compareScopes(a.scope, b.scope) })
}

// compareScopes orders wider scopes first, equal ones by name.
func compareScopes(a, b Scope) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name),
		cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()), a.Prefix.Addr().Compare(b.Prefix.Addr()))
}

// eitherScopes are those that one of two layers has, in order.
func eitherScopes[V any](a, b map[Scope]V) []Scope {
	all := make(map[Scope]V, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return slices.SortedFunc(maps.Keys(all), compareScopes)
}

// contains says whether a prefix lies within another.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
