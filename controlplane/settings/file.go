package settings

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// config is the source of the configuration file's values.
const config = "config"

// FileLayer has the settings of the configuration file. At each scope, values of operators
// override them.
type FileLayer struct {
	Name   string               `json:"name,omitempty"` // of the file; "" without one
	Values Values               `json:"values,omitzero"`
	Lines  live.ByKey[int]      `json:"lines,omitzero"` // where it gives each value, from 1; 0 without a value
	Scopes map[Scope]FileValues `json:"scopes,omitempty"`
}

// FileValues are the file's values at a listener or peer scope.
type FileValues struct {
	Values Values          `json:"values,omitzero"`
	Lines  live.ByKey[int] `json:"lines,omitzero"`
}

// Equal reports whether two layers are the same, lines included.
func (f *FileLayer) Equal(g *FileLayer) bool {
	return f.Name == g.Name && f.Values == g.Values && f.Lines == g.Lines && maps.Equal(f.Scopes, g.Scopes)
}

// Differ returns the keys that differ between two layers, at any scope.
func (f *FileLayer) Differ(g *FileLayer) KeySet {
	changed := f.Values.Differ(&g.Values)
	for _, scope := range eitherScopes(f.Scopes, g.Scopes) {
		before, now := g.Scopes[scope].Values, f.Scopes[scope].Values
		changed |= now.Differ(&before)
	}
	return changed
}

func (f *FileLayer) check() error {
	if err := f.Values.Check(); err != nil {
		return err
	}
	for scope, v := range f.Scopes {
		if scope.Kind != Listener && scope.Kind != Peer {
			return live.Invalid("scope", "%s: the configuration file has listener and peer scopes", scope)
		}
		if err := v.Values.Check(); err != nil {
			return err
		}
	}
	return nil
}

// FileScope parses a scope of the configuration file: listener/NAME or peer/CIDR.
func FileScope(name string) (Scope, error) {
	scope, err := ParseScope(name)
	cidr, _ := strings.CutPrefix(name, "peer/")
	prefix, ok := ParsePrefix(cidr)
	switch {
	case ok && hostBits(cidr):
		return Scope{}, live.Invalid("scope", "%s", hostBitsText(prefix))
	case err != nil:
		return Scope{}, live.Invalid("scope", "must be listener/NAME or peer/CIDR")
	case scope.Kind == Global:
		return Scope{}, live.Invalid("scope", "global settings belong under settings")
	case scope.Kind == Connection:
		return Scope{}, live.Invalid("scope", "settings of a connection end with it, and a file outlives it: use the scope of its listener or peer here, or rdmactl settings set --scope %s", scope)
	}
	return scope, nil
}

// hostBits says whether a CIDR has bits beyond its length.
func hostBits(cidr string) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && p != p.Masked()
}

// hostBitsText says what is wrong with a scope that has them.
func hostBitsText(right netip.Prefix) string {
	return fmt.Sprintf("has address bits beyond the prefix length: write %s", Scope{Kind: Peer, Prefix: right})
}

// File returns the configuration file's layer in force.
func (s *State) File() FileLayer { return s.file }

// WithFile returns s with another layer of the configuration file, under the next revision. An
// *InvalidError lists all mistakes.
func (s *State) WithFile(f FileLayer) (*State, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	return s.succeeded(s.withFile(f), f.Differ(&s.file))
}

// succeeded is next under the revision after that of s. changed are the settings of which
// the layers differ. An *InvalidError lists all that does not go together.
func (s *State) succeeded(next *State, changed KeySet) (*State, error) {
	if err := s.checkRevision(); err != nil {
		return nil, err
	}
	next.revision++
	if err := next.checkSize(); err != nil {
		return nil, err
	}
	if bad := slices.Collect(next.broken(changed, nil)); bad != nil {
		slices.SortFunc(bad, compareViolations)
		return nil, &InvalidError{Violations: slices.Compact(bad)}
	}
	return next, nil
}

// Relined returns s with the same values from other lines of the file, or from a file of
// another name, at the same revision. It returns s if f has other values.
func (s *State) Relined(f FileLayer) *State {
	if f.Differ(&s.file) != 0 || f.Equal(&s.file) {
		return s
	}
	return s.withFile(f)
}

func (s *State) withFile(f FileLayer) *State {
	next := *s
	next.file = f
	next.base = s.defaults
	next.base.Overlay(&f.Values)
	next.under = make(map[Scope]*layer, len(f.Scopes))
	for scope, v := range f.Scopes {
		next.under[scope] = &layer{Layer: Layer{Values: v.Values}, scope: scope, lines: &v.Lines}
	}
	next.sortPeers()
	return &next
}

// fileOrigin is that of a value which the configuration file gives.
func (s *State) fileOrigin(scope Scope, line int) Origin {
	o := Origin{Source: config, Scope: scope}
	if line > 0 {
		o.Detail = s.file.Name + ":" + strconv.Itoa(line)
	}
	return o
}
