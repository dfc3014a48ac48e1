package settings

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/conn"
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
	peers    []Scope // those of layers, shortest prefix first
}

// layer is what one scope says, and of a connection's scope the connection.
type layer struct {
	Layer
	target Target
}

// NewState is revision 0: base with nothing changed. Base must have a value
// for every key that is available; configured names those that don't come
// from the built-in defaults.
func NewState(base Values, configured KeySet) (*State, error) {
	if err := checkValues(&base); err != nil {
		return nil, err
	}
	defaults, builtin := base, conn.DefaultSettings()
	under := FromSettings(&builtin)
	under = under.Only(configured)
	defaults.Overlay(&under)
	s := &State{defaults: defaults, layers: map[Scope]*layer{}}
	s = s.withFile(FileLayer{Values: base.Only(configured)})
	if err := s.checkTogether(base.Keys()); err != nil {
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
	Origins [NumKeys]Origin
}

// Resolve is what is in force on t.
func (s *State) Resolve(t Target) Values {
	var buf [usualChain]Scope
	v := s.base
	for _, scope := range s.chain(buf[:0], t) {
		v.Overlay(&s.layers[scope].Values)
	}
	return v
}

// Effective is Resolve with origins.
func (s *State) Effective(t Target) Effective { return s.explain(s.chain(nil, t)) }

// At is what is in force at a scope that is not a connection's, as far as
// the scope alone can tell.
func (s *State) At(scope Scope) Effective { return s.explain(s.chainAt(scope)) }

// chainAt is chain for a scope that is not a connection's.
func (s *State) chainAt(scope Scope) []Scope {
	chain := s.present(nil, Scope{})
	switch scope.Kind {
	case Listener:
		chain = s.present(chain, scope)
	case Peer:
		for _, p := range s.peers {
			if contains(p.Prefix, scope.Prefix) {
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

// chain lists the scopes that speak for t, the widest first, behind an empty
// chain.
func (s *State) chain(chain []Scope, t Target) []Scope {
	chain = s.present(chain, Scope{})
	chain = s.present(chain, Scope{Kind: Listener, Name: t.Listener})
	addr := plain(t.Peer)
	for _, p := range s.peers {
		if p.Prefix.Contains(addr) {
			chain = append(chain, p)
		}
	}
	return s.present(chain, Scope{Kind: Connection, Name: t.ID})
}

// present appends scope to chain if it says anything.
func (s *State) present(chain []Scope, scope Scope) []Scope {
	if s.layers[scope] != nil {
		chain = append(chain, scope)
	}
	return chain
}

func (s *State) explain(chain []Scope) Effective {
	e := Effective{Values: s.base}
	for k := range NumKeys {
		e.Origins[k] = s.baseOrigin(k)
	}
	for _, scope := range chain {
		l := s.layers[scope]
		e.Values.Overlay(&l.Values)
		for _, k := range l.Values.Keys().Keys() {
			e.Origins[k] = Origin{Source: scope.String(), Revision: l.Set[k]}
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
func (s *State) Connections() []string {
	var ids []string
	for scope := range s.layers {
		if scope.Kind == Connection {
			ids = append(ids, scope.Name)
		}
	}
	return ids
}

// Forget is the state without the settings of a connection that has ended.
// The revision stays: nobody decided anything.
func (s *State) Forget(id string) *State {
	scope := Scope{Kind: Connection, Name: id}
	if s.layers[scope] == nil {
		return s
	}
	return s.replace(scope, nil)
}

// replace is the state with another layer at scope, or none if it is nil or
// empty.
func (s *State) replace(scope Scope, l *layer) *State {
	next := *s
	next.layers = maps.Clone(s.layers)
	if l == nil || l.Values.Keys() == 0 {
		delete(next.layers, scope)
	} else {
		next.layers[scope] = l
	}
	if scope.Kind == Peer {
		next.peers = sortedPeers(next.layers)
	}
	return &next
}

func sortedPeers(layers map[Scope]*layer) []Scope {
	var peers []Scope
	for scope := range layers {
		if scope.Kind == Peer {
			peers = append(peers, scope)
		}
	}
	slices.SortFunc(peers, func(a, b Scope) int {
		return cmp.Or(cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()), a.Prefix.Addr().Compare(b.Prefix.Addr()))
	})
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
