package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Plan says in which steps a policy comes to its nodes, and when it is rolled back.
type Plan struct {
	// Steps has the number of nodes that have the change after each wave. The first wave is the
	// canary. All nodes have the change after the last wave.
	Steps []Step
	// Bake is how long the gates watch the nodes of a wave before they keep the change.
	Bake time.Duration
	// ApplyWithin is how long the nodes of a wave may take to apply it, and how long a node may
	// be DOWN before it is lost.
	ApplyWithin time.Duration
	// Spread, if not empty, is a label: the nodes of each wave are spread over its values.
	Spread string
	Gates
}

// Gates are the bounds within which a rollout continues.
type Gates struct {
	// IgnoreConditions lets the rollout continue when a node has a new condition that is not
	// OK.
	IgnoreConditions bool
	// MaxErrors is how many more errors per second a node may have than before.
	MaxErrors float64
	// MaxP99 is how many times as long as before a node's p99 may be. 0 is no gate.
	MaxP99 float64
	// MaxUnsupported is the number of connections, of all nodes, on which the change may be
	// impossible.
	MaxUnsupported uint32
	// MaxLost is how many of the nodes that got the change may be lost.
	MaxLost uint32
}

// Bounds of a plan.
const (
	MaxBake        = 12 * time.Hour
	MinApplyWithin = time.Second
	MaxApplyWithin = time.Hour
	// leastBake is for the reports that the gates need, however short the bake is.
	leastBake = 15 * time.Second
)

// DefaultPlan is a canary of one node, then 10 %, 50 % and all nodes.
func DefaultPlan() *Plan {
	return &Plan{
		Steps: []Step{{Nodes: 1}, {Percent: 10}, {Percent: 50}, {Percent: 100}},
		Bake:  5 * time.Minute, ApplyWithin: time.Minute, Gates: Gates{MaxErrors: 1, MaxP99: 2},
	}
}

// Window is the confirm window of the nodes of a wave: as long as the wave may take, and then
// another ApplyWithin for a new controller.
func (p *Plan) Window() time.Duration { return max(p.Bake, leastBake) + 3*p.ApplyWithin }

// Check refuses a plan that is outside of the bounds.
func (p *Plan) Check() error {
	for i, s := range p.Steps {
		if s.Percent > 100 || s.Percent != 0 && s.Nodes != 0 || s.Nodes > MaxNodes {
			return live.Invalid(fmt.Sprintf("waves[%d]", i), "%s is not a number of nodes, at most %d, or a percentage", s, MaxNodes)
		}
	}
	switch {
	case len(p.Steps) >= MaxWaves:
		return live.Invalid("waves", "no more than %d waves (there are %d)", MaxWaves-1, len(p.Steps))
	case p.Bake < 0 || p.Bake > MaxBake:
		return live.Invalid("bake", "must be between 0s and %v (is %v)", MaxBake, p.Bake)
	case p.ApplyWithin < MinApplyWithin || p.ApplyWithin > MaxApplyWithin:
		return live.Invalid("apply_within", "must be between %v and %v (is %v)", MinApplyWithin, MaxApplyWithin, p.ApplyWithin)
	case p.Spread != "" && NameProblem(p.Spread) != "":
		return live.Invalid("spread", "label %s", NameProblem(p.Spread))
	case !(p.MaxErrors >= 0 && p.MaxErrors <= 1e9): // not a number neither
		return live.Invalid("max_errors_per_second", "must be between 0 and 1e9 (is %v)", p.MaxErrors)
	case p.MaxP99 != 0 && !(p.MaxP99 >= 1 && p.MaxP99 <= 1e6):
		return live.Invalid("max_p99_ratio", "must be between 1 and 1e6, or 0 for no gate (is %v)", p.MaxP99)
	}
	return nil
}

// Step is a number of nodes or a percentage of them.
type Step struct{ Nodes, Percent uint32 }

// ParseStep reads 5 or 10%.
func ParseStep(text string) (Step, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
	if err != nil || percent && n > 100 || n > MaxNodes {
		return Step{}, fmt.Errorf("%q is not a number of nodes, at most %d, or a percentage such as 10%%", cut(text), MaxNodes)
	}
	if percent {
		return Step{Percent: uint32(n)}, nil
	}
	return Step{Nodes: uint32(n)}, nil
}

// String returns the text that ParseStep reads.
func (s Step) String() string {
	if s.Percent != 0 {
		return fmt.Sprintf("%d%%", s.Percent)
	}
	return strconv.FormatUint(uint64(s.Nodes), 10)
}

// of is the step for a number of nodes. A percentage is rounded up.
func (s Step) of(total int) int {
	if s.Percent != 0 {
		return (total*int(s.Percent) + 99) / 100
	}
	return min(int(s.Nodes), total)
}

// candidate is a node that is to get the change.
type candidate struct {
	name  string
	group string // the value of the label to spread over
}

// waves divides candidates into at most so many waves, when a number of other nodes has the change
// already. A step that brings no node makes no wave. The last wave has all nodes that are left.
func (p *Plan) waves(most, begun int, all []candidate) (out []Wave) {
	names := spread(all)
	total, had := begun+len(names), begun
	for _, s := range append(slices.Clone(p.Steps), Step{Percent: 100}) {
		if len(out) == most-1 {
			s = Step{Percent: 100}
		}
		if n := s.of(total); n > had && len(out) < most {
			out = append(out, Wave{Nodes: names[had-begun : n-begun]})
			had = n
		}
	}
	return out
}

// spread orders candidates so that those that come first are of each group in proportion to its
// size. Within a group, names decide.
func spread(all []candidate) []string {
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.name, b.name))
	})
	type place struct {
		candidate
		index int // in its group
	}
	places, size := make([]place, len(all)), make(map[string]int)
	for i, c := range all {
		places[i] = place{c, size[c.group]}
		size[c.group]++
	}
	// The middle of a node's share of its group is at (2 index + 1) / (2 size).
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Compare((2*a.index+1)*size[b.group], (2*b.index+1)*size[a.group])
	})
	names := make([]string, len(places))
	for i, p := range places {
		names[i] = p.name
	}
	return names
}
