package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Policy gives settings to the nodes that it selects.
type Policy struct {
	Name     string
	Selector Selector
	// Priority decides between policies that give a setting different values at the same
	// scope: the higher one wins.
	Priority int32
	// Settings are those of the global scope, listeners and peers.
	Settings map[settings.Scope]live.Values
}

// Revision is one version of a policy. It never changes.
type Revision struct {
	Policy
	Revision uint32 // from 1, for each policy
	Author   string
	Comment  string
	Time     time.Time
}

// Ref names one version of a policy.
type Ref struct {
	Policy   string
	Revision uint32
}

// String writes NAME@REVISION.
func (r Ref) String() string { return fmt.Sprintf("%s@%d", r.Policy, r.Revision) }

// Ref returns the version's name.
func (r *Revision) Ref() Ref { return Ref{r.Name, r.Revision} }

// Check refuses a policy that is outside of the model's bounds or the catalogue's ranges.
func (p *Policy) Check() error {
	if text := NameProblem(p.Name); text != "" {
		return live.Invalid("name", "%s", text)
	}
	if len(p.Selector) > MaxTerms {
		return live.Invalid("selector", "no more than %d terms (there are %d)", MaxTerms, len(p.Selector))
	}
	for i := range p.Selector {
		if err := p.Selector[i].check(); err != nil {
			return live.Invalid("selector", "%v", err)
		}
	}
	if n := len(p.Settings); n > settings.MaxScopes {
		return live.Invalid("scopes", "no more than %d scopes (there are %d)", settings.MaxScopes, n)
	}
	for _, scope := range p.Scopes() {
		if scope.Kind == settings.Connection {
			return live.Invalid("scopes", "%s: settings of a connection belong to its rdmad; a policy has global, listener and peer scopes", scope)
		}
		v := p.Settings[scope]
		if err := v.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Check refuses a version that Policy.Check refuses, or whose other parts are wrong.
func (r *Revision) Check() error {
	if len(r.Comment) > MaxComment || !utf8.ValidString(r.Comment) {
		return live.Invalid("comment", "must be text of at most %d bytes", MaxComment)
	}
	if r.Revision == 0 {
		return live.Invalid("revision", "must not be 0")
	}
	return r.Policy.Check()
}

// Scopes are those of the settings, in the order of their names.
func (p *Policy) Scopes() []settings.Scope {
	return slices.SortedFunc(maps.Keys(p.Settings), func(a, b settings.Scope) int { return strings.Compare(a.String(), b.String()) })
}

// ConflictError refuses a policy that gives a setting another value than a policy of the same
// priority, on nodes that both can select.
type ConflictError struct {
	Policy, Other string
	Scope         settings.Scope
	Key           live.Key
	Value, Others string
	Priority      int32
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("policies %s and %s both have priority %d and give %s at %s different values (%s and %s) on nodes that both can select: change a priority or a selector",
		e.Policy, e.Other, e.Priority, e.Key, e.Scope, e.Value, e.Others)
}

// Conflict returns how two policies conflict, or nil.
func Conflict(a, b *Policy) error {
	if a.Name == b.Name || a.Priority != b.Priority || !a.Selector.Overlaps(b.Selector) {
		return nil
	}
	for _, scope := range a.Scopes() {
		ours, theirs := a.Settings[scope], b.Settings[scope]
		for _, k := range (ours.Keys() & theirs.Keys()).Keys() {
			if ours.Value(k) != theirs.Value(k) {
				return &ConflictError{
					Policy: a.Name, Other: b.Name, Scope: scope, Key: k, Priority: a.Priority,
					Value: ours.Format(k), Others: theirs.Format(k),
				}
			}
		}
	}
	return nil
}

// Conflicts returns how a policy conflicts with one of the others, or nil.
func Conflicts(p *Policy, others []*Revision) error {
	for _, other := range others {
		if err := Conflict(p, &other.Policy); err != nil {
			return err
		}
	}
	return nil
}

// inOrder sorts versions so that a later one wins over an earlier one.
func inOrder(all []*Revision) []*Revision {
	return slices.SortedFunc(slices.Values(all), func(a, b *Revision) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.Name, b.Name))
	})
}
