package settings

import (
	"math"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Change is one update. It is made completely or not at all.
type Change struct {
	Scope  Scope
	Target Target // the connection, when Scope is a connection's
	Set    Values
	Unset  KeySet // keys whose value at Scope is taken away
	// Expected, if not nil, is the revision for which the change was made.
	Expected *uint32
}

// Keys returns the keys that the change sets or unsets.
func (c *Change) Keys() KeySet { return c.Set.Keys() | c.Unset }

// Apply returns the state after c. Errors: *InvalidError, *StaleError, *LimitError.
func (s *State) Apply(c *Change) (*State, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Expected != nil && *c.Expected != s.revision {
		return nil, &StaleError{Expected: *c.Expected, Current: s.revision}
	}
	if err := s.checkRevision(); err != nil {
		return nil, err
	}
	revision := s.revision + 1
	l := layer{target: c.Target}
	if old := s.at(c.Scope); old != nil {
		l = *old
	}
	for _, k := range c.Unset.Keys() {
		l.Values.Delete(k)
		l.Set[k] = 0
	}
	for _, k := range c.Set.Keys().Keys() {
		l.Set[k] = revision
	}
	l.Values.Overlay(&c.Set)
	next := s.replace(c.Scope, &l)
	next.revision = revision
	if err := next.checkSize(); err != nil {
		return nil, err
	}
	if err := next.checkTogether(c.Keys(), c); err != nil {
		return nil, err
	}
	return next, nil
}

// checkRevision makes sure that there is a next one.
func (s *State) checkRevision() error {
	if s.revision == math.MaxUint32 {
		return &LimitError{What: "revisions", Limit: math.MaxUint32}
	}
	return nil
}

// Override is a key whose value comes from a narrower scope.
type Override struct {
	Key   Key
	Scope Scope
	Value string // there, as the command line takes it
}

// String returns a sentence for operators.
func (o Override) String() string {
	return o.Key.String() + ": stays " + o.Value + ", set at " + o.Scope.String()
}

// Overridden lists, in order, the keys of c that a scope narrower than c's decides on t. It
// returns nil if c decides all of them.
func (s *State) Overridden(c *Change, t Target) (out []Override) {
	var buf [usualChain]*layer
	chain, keys := s.chain(buf[:0], t), c.Keys()
	for k := range live.NumKeys {
		if !keys.Has(k) {
			continue
		}
		for i := len(chain) - 1; i >= 0 && narrower(chain[i].scope, c.Scope); i-- {
			if l := chain[i]; l.Values.Keys().Has(k) {
				out = append(out, Override{k, l.scope, l.Values.Format(k)})
				break
			}
		}
	}
	return out
}

// narrower says whether a wins over b where both cover a connection.
func narrower(a, b Scope) bool {
	if a.Kind == Peer && b.Kind == Peer {
		return a.Prefix.Bits() > b.Prefix.Bits()
	}
	return a.Kind > b.Kind
}
