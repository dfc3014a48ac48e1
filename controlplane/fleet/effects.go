package fleet

import (
	"slices"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// Answer is a node's answer about a policy that it does not have yet.
type Answer uint8

// The answers.
const (
	NoAnswer Answer = iota
	Accepted        // it would apply the policy
	Refused         // it would go on with what it has
)

// MaxEffects bounds the changes of Effects, and the pins.
const MaxEffects = 32

// Effects are the effects of a policy on a node.
type Effects struct {
	Node     string
	Answer   Answer
	Reason   string   // of Refused and NoAnswer
	Changes  []Change // of the values in force
	Pins     []string
	Outcomes Outcomes
}

// Change is a value that a policy would change, as text.
type Change struct{ Scope, Key, Before, After string }

// Concerns reports whether a policy changes something on a node: it selects the node, or the
// node has another version of it.
func (p *Policy) Concerns(l Labels, has []Ref) bool {
	return slices.ContainsFunc(has, func(r Ref) bool { return r.Policy == p.Name }) || p.Selector.Matches(l)
}

// Swap returns the versions of a node if r replaces the other version of its policy.
func Swap(all []*Revision, r *Revision, l Labels) []*Revision {
	out := slices.DeleteFunc(slices.Clone(all), func(other *Revision) bool { return other.Name == r.Name })
	if r.Selector.Matches(l) {
		out = append(out, r)
	}
	return out
}

// ChangesOf writes differences as text, as many as Effects may have.
func ChangesOf(all []settings.Difference) (out []Change) {
	for _, d := range all[:min(len(all), MaxEffects)] {
		out = append(out, Change{d.Place, d.Key.String(), d.Before, d.After})
	}
	return out
}
