package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// View is the controller's copy of a fleet's keys in etcd. The next write depends only on a
// View and the time, so another controller continues where the last one ended.
type View struct {
	Policies map[Ref]*Revision
	Rollouts map[Ref]*Rollout
	Members  map[string]*Member // by the node's name
}

// Member is a node in the controller's view.
type Member struct {
	Node
	Since time.Time // the controller knows that it is up, or that it is not
	// Reports are the last two, the newest first; nil without one.
	Reports [2]*Reported
}

// Reported is a report, the revision of etcd at which it was written, and when the controller got it.
type Reported struct {
	Report
	At   int64
	Seen time.Time
}

// Assigned is an assignment as etcd has it, and the revision at which it was written; 0 without
// one.
type Assigned struct {
	Assignment
	At int64
}

// Assignment is the assignment of a node.
type Assignment struct {
	Policies []Ref
	// ConfirmWithin, if not 0, makes the node roll the assignment back, unless one without
	// ConfirmWithin comes in time.
	ConfirmWithin time.Duration
	// Rollout is the rollout that changes the node, and Before the state of the node until
	// then. Both are nil without a rollout.
	Rollout Ref
	Before  *Before
}

// Before has the values that a node reported before a rollout changed it.
type Before struct {
	Errors     float64 // per second
	P99        time.Duration
	Conditions []string // that were not OK, as Condition.ID
}

// NewView makes an empty view.
func NewView() *View {
	return &View{Policies: make(map[Ref]*Revision), Rollouts: make(map[Ref]*Rollout), Members: make(map[string]*Member)}
}

// same reports whether two assignments ask the same of a node.
func (a *Assignment) same(b *Assignment) bool {
	return a.ConfirmWithin == b.ConfirmWithin && slices.Equal(a.Policies, b.Policies)
}

// standing is the state of a policy.
type standing struct {
	base   *Revision // in force; nil without one
	next   *Revision // that a rollout brings; nil without one
	by     *Rollout  // of next
	having map[string]*Wave
}

// standings are those of all policies, in the order of names.
func (v *View) standings() []*standing {
	byName := make(map[string]*standing)
	for ref, r := range v.Policies {
		s := byName[ref.Policy]
		if s == nil {
			s = &standing{}
			byName[ref.Policy] = s
		}
		switch by := v.Rollouts[ref]; {
		case by == nil: // its rollout was deleted: it was in force nowhere, or will be nowhere
		case by.State == Done && (s.base == nil || s.base.Revision < ref.Revision):
			s.base = r
		case by.gives() && (s.next == nil || s.next.Revision < ref.Revision):
			s.next, s.by = r, by
		}
	}
	out := make([]*standing, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s := byName[name]
		if s.next != nil {
			s.having = make(map[string]*Wave)
			for i := range s.by.Waves {
				for _, node := range s.by.Waves[i].Nodes {
					s.having[node] = &s.by.Waves[i]
				}
			}
		}
		out = append(out, s)
	}
	return out
}

// Live returns the versions that are in force or being rolled out: base and next of all
// policies.
func (v *View) Live() (all []*Revision) {
	for _, s := range v.standings() {
		for _, r := range []*Revision{s.base, s.next} {
			if r != nil {
				all = append(all, r)
			}
		}
	}
	return all
}

// Base returns the version of a policy that is in force, or nil.
func (v *View) Base(policy string) *Revision {
	for _, s := range v.standings() {
		if s.base != nil && s.base.Name == policy {
			return s.base
		}
	}
	return nil
}

// Notable returns the rollouts that have a condition: the newest one of each policy while it is
// active, or if a gate halted it.
func (v *View) Notable() map[Ref]*Rollout {
	newest := make(map[string]*Rollout)
	for ref, r := range v.Rollouts {
		if old := newest[ref.Policy]; old == nil || old.Revision < r.Revision {
			newest[ref.Policy] = r
		}
	}
	out := make(map[Ref]*Rollout)
	for _, r := range newest {
		if r.State.Active() || r.State == RolledBack {
			out[r.Ref] = r
		}
	}
	return out
}

// Changes returns the assignments that differ from those that policies, rollouts and labels
// require, by node. Those of nodes that are down stay, except for changes that are rolled back.
func (v *View) Changes() map[string]Assignment {
	all := v.standings()
	out := make(map[string]Assignment)
	for name, m := range v.Members {
		if !m.Up && !v.takesBack(m) {
			continue
		}
		wanted := m.wanted(name, all)
		if m.Assigned.At == 0 && len(wanted.Policies) == 0 && !v.leftover(m) || m.Assigned.At != 0 && m.Assigned.same(&wanted) {
			continue
		}
		out[name] = wanted
	}
	return out
}

// leftover reports whether a member without an assignment has an earlier one in force, as that of
// another name. Without policies, the fleet's keys may have been deleted: nodes then keep what they have.
func (v *View) leftover(m *Member) bool {
	return len(v.Policies) > 0 && m.Reports[0] != nil && m.Reports[0].Applied != 0
}

// takesBack reports whether a member is assigned what a rollout took back.
func (v *View) takesBack(m *Member) bool {
	return slices.ContainsFunc(m.Assigned.Policies, func(ref Ref) bool {
		r := v.Rollouts[ref]
		return r != nil && r.State != Done && !r.gives()
	})
}

// wanted is what a node is to have.
func (m *Member) wanted(node string, all []*standing) (a Assignment) {
	var chosen []*Revision
	for _, s := range all {
		r := s.base
		if w := s.having[node]; w != nil && w.begun() {
			r = s.next
			a.Rollout, a.Before = s.next.Ref(), m.before(s.next.Ref())
			if w.State != WaveDone {
				a.ConfirmWithin = max(a.ConfirmWithin, s.by.Plan.Window())
			}
		}
		if r != nil {
			chosen = append(chosen, r)
		}
	}
	a.Policies = Assign(chosen, m.Labels)
	return a
}

// before is how the node was before a rollout.
func (m *Member) before(rollout Ref) *Before {
	if m.Assigned.Rollout == rollout {
		return m.Assigned.Before
	}
	if m.Reports[0] == nil {
		return nil
	}
	last := m.Reports[0]
	return &Before{Errors: last.Load.Errors, P99: last.Load.P99, Conditions: last.IDs()}
}

// lost reports whether the node is down for longer than it may be, and else when it will be;
// zero while it is up.
func (m *Member) lost(p *Plan, now time.Time) (lost bool, at time.Time) {
	switch {
	case m == nil:
		return true, time.Time{}
	case m.Up:
		return false, time.Time{}
	}
	at = m.Since.Add(p.ApplyWithin)
	return !now.Before(at), at
}

// has reports whether the assignment that etcd has is in force on the node.
func (m *Member) has() bool {
	return m.Reports[0] != nil && m.Reports[0].Applied == m.Assigned.At
}

// candidates are the nodes that are up and that a version of a policy changes, but for those that
// have it.
func (v *View) candidates(next, base *Revision, spread string, having map[string]bool) (all []candidate) {
	for name, m := range v.Members {
		if m.Up && !having[name] && (selects(next, m.Labels) || selects(base, m.Labels)) {
			all = append(all, candidate{name, m.Labels[spread]})
		}
	}
	return all
}

func selects(r *Revision, l Labels) bool {
	return r != nil && len(r.Settings) > 0 && r.Selector.Matches(l)
}

// Start returns a new rollout of a version of a policy. Without a plan all nodes have it at
// once.
func (v *View) Start(r *Revision, p *Plan, now time.Time) *Rollout {
	out := &Rollout{Ref: r.Ref(), Plan: p, Author: r.Author, Began: now}
	if base := v.Base(r.Name); base != nil {
		out.Previous = base.Revision
	}
	if p == nil {
		out.State, out.Ended = Done, now
		return out
	}
	out.Waves = p.waves(MaxWaves, 0, v.candidates(r, v.Base(r.Name), p.Spread, nil))
	return out
}

// ActiveError refuses a policy while a rollout that concerns the same nodes is active.
type ActiveError struct {
	Policy  string
	Rollout Ref
	State   RolloutState
}

func (e *ActiveError) Error() string {
	what := "rollout " + e.Rollout.String() + " is " + e.State.String()
	if e.Policy != e.Rollout.Policy {
		what += ", on nodes that policy " + e.Policy + " can select too"
	}
	return what + ": wait until it ends, or abort it: rdmactl fleet rollouts abort " + e.Rollout.String()
}

// Busy returns the active rollout that a new version of a policy has to wait for, or nil.
func (v *View) Busy(p *Policy) error {
	ours := v.selectors(p)
	for _, ref := range slices.SortedFunc(maps.Keys(v.Rollouts), compareRefs) {
		r := v.Rollouts[ref]
		if !r.State.Active() {
			continue
		}
		busy := &ActiveError{p.Name, ref, r.State}
		if ref.Policy == p.Name {
			return busy
		}
		other := v.Policies[ref]
		if other == nil {
			continue
		}
		for _, a := range ours {
			if slices.ContainsFunc(v.selectors(&other.Policy), a.Overlaps) {
				return busy
			}
		}
	}
	return nil
}

// selectors are those of the nodes that a new version of a policy changes.
func (v *View) selectors(p *Policy) []Selector {
	all := []Selector{p.Selector}
	if base := v.Base(p.Name); base != nil {
		all = append(all, base.Selector)
	}
	return all
}

func compareRefs(a, b Ref) int {
	return cmp.Or(strings.Compare(a.Policy, b.Policy), cmp.Compare(a.Revision, b.Revision))
}
