package fleetproto

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Plan decodes a plan. Fields that are not set have their defaults. A plan that breaks a rule is a
// *live.InvalidError.
func Plan(m *rdmadv1.RolloutPlan) (*fleet.Plan, error) {
	p := fleet.DefaultPlan()
	if m == nil {
		return p, nil
	}
	if len(m.GetWaves()) > 0 {
		p.Steps = nil
	}
	for i, text := range m.GetWaves() {
		s, err := fleet.ParseStep(text)
		if err != nil {
			return nil, live.Invalid(fmt.Sprintf("waves[%d]", i), "%v", err)
		}
		p.Steps = append(p.Steps, s)
	}
	if m.Bake != nil {
		p.Bake = m.GetBake().AsDuration()
	}
	if m.ApplyWithin != nil {
		p.ApplyWithin = m.GetApplyWithin().AsDuration()
	}
	if m.MaxErrorsPerSecond != nil {
		p.MaxErrors = m.GetMaxErrorsPerSecond()
	}
	if m.MaxP99Ratio != nil {
		p.MaxP99 = m.GetMaxP99Ratio()
	}
	p.Spread, p.IgnoreConditions, p.MaxUnsupported, p.MaxLost = m.GetSpread(), m.GetIgnoreConditions(), m.GetMaxUnsupported(), m.GetMaxLost()
	return p, p.Check()
}

// PlanMessage encodes a plan.
func PlanMessage(p *fleet.Plan) *rdmadv1.RolloutPlan {
	if p == nil {
		return nil
	}
	m := &rdmadv1.RolloutPlan{
		Bake: durationpb.New(p.Bake), ApplyWithin: durationpb.New(p.ApplyWithin), Spread: p.Spread, IgnoreConditions: p.IgnoreConditions,
		MaxErrorsPerSecond: &p.MaxErrors, MaxP99Ratio: &p.MaxP99, MaxUnsupported: p.MaxUnsupported, MaxLost: p.MaxLost,
	}
	for _, s := range p.Steps {
		m.Waves = append(m.Waves, s.String())
	}
	return m
}

// RolloutState encodes a state as the API's enumeration.
func RolloutState(s fleet.RolloutState) rdmadv1.FleetRollout_State {
	return rdmadv1.FleetRollout_State(rdmadv1.FleetRollout_State_value[s.String()])
}

// RolloutMessage encodes a rollout.
func RolloutMessage(r *fleet.Rollout) *rdmadv1.FleetRollout {
	m := &rdmadv1.FleetRollout{
		Id: r.String(), Policy: r.Policy, Revision: r.Revision, State: RolloutState(r.State), Reason: r.Reason, Plan: PlanMessage(r.Plan),
		Author: r.Author, Began: Stamp(r.Began), Ended: Stamp(r.Ended), PreviousRevision: r.Previous,
	}
	for i := range r.Waves {
		w := &r.Waves[i]
		m.Waves = append(m.Waves, &rdmadv1.FleetWave{
			Nodes: w.Nodes, State: rdmadv1.FleetWave_State(rdmadv1.FleetWave_State_value[w.State.String()]), Reason: w.Reason, Since: Stamp(w.Since),
		})
	}
	return m
}

// Rollout decodes a rollout.
func Rollout(m *rdmadv1.FleetRollout) (*fleet.Rollout, error) {
	r := &fleet.Rollout{
		Ref: fleet.Ref{Policy: m.GetPolicy(), Revision: m.GetRevision()}, Reason: m.GetReason(), Author: m.GetAuthor(), Previous: m.GetPreviousRevision(),
		Began: at(m.GetBegan()), Ended: at(m.GetEnded()),
	}
	var ok bool
	if r.State, ok = state[fleet.RolloutState](m.GetState(), fleet.NumRolloutStates); !ok || m.GetId() != r.String() {
		return nil, fmt.Errorf("rollout %q has state %s", m.GetId(), m.GetState())
	}
	for _, w := range m.GetWaves() {
		one := fleet.Wave{Nodes: w.GetNodes(), Reason: w.GetReason(), Since: at(w.GetSince())}
		if one.State, ok = state[fleet.WaveState](w.GetState(), fleet.NumWaveStates); !ok {
			return nil, fmt.Errorf("a wave has state %s", w.GetState())
		}
		r.Waves = append(r.Waves, one)
	}
	if m.GetPlan() == nil {
		if r.State != fleet.Done {
			return nil, fmt.Errorf("rollout %s has no plan", r.Ref)
		}
		return r, r.Check()
	}
	var err error
	if r.Plan, err = Plan(m.GetPlan()); err != nil {
		return nil, err
	}
	return r, r.Check()
}

// state takes a state of the model out of an enumeration that has the same names.
func state[S interface {
	~uint8
	String() string
}](m fmt.Stringer, n S) (S, bool) {
	for s := range n {
		if s.String() == m.String() {
			return s, true
		}
	}
	return 0, false
}

// at is Stamp's inverse.
func at(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// AssignmentMessage encodes an assignment.
func AssignmentMessage(a *fleet.Assignment) *rdmadv1.FleetAssignment {
	m := &rdmadv1.FleetAssignment{Policies: Refs(a.Policies)}
	if a.ConfirmWithin != 0 {
		m.ConfirmWithin = durationpb.New(a.ConfirmWithin)
	}
	if a.Rollout != (fleet.Ref{}) {
		m.Rollout = a.Rollout.String()
	}
	if b := a.Before; b != nil {
		m.Before = &rdmadv1.FleetBefore{ErrorsPerSecond: b.Errors, P99: durationpb.New(b.P99), Conditions: b.Conditions}
	}
	return m
}

// canReport reports whether a node can report conditions with these IDs.
func canReport(ids []string) bool {
	const most, longest = 64, 1024 // bytes
	return len(ids) <= most && !slices.ContainsFunc(ids, func(id string) bool { return len(id) > longest })
}

// Assignment decodes an assignment.
func Assignment(m *rdmadv1.FleetAssignment) (a fleet.Assignment, err error) {
	if n := len(m.GetPolicies()); n > fleet.MaxPolicies {
		return a, fmt.Errorf("no more than %d policies (there are %d)", fleet.MaxPolicies, n)
	}
	for _, text := range m.GetPolicies() {
		r, err := Ref(text)
		if err != nil {
			return a, err
		}
		a.Policies = append(a.Policies, r)
	}
	if a.ConfirmWithin = m.GetConfirmWithin().AsDuration(); a.ConfirmWithin < 0 || m.ConfirmWithin != nil && a.ConfirmWithin == 0 {
		return a, fmt.Errorf("confirm_within is %v", a.ConfirmWithin)
	}
	if m.GetRollout() != "" {
		if a.Rollout, err = Ref(m.GetRollout()); err != nil {
			return a, err
		}
	}
	if m.Before != nil {
		a.Before, err = before(m.GetBefore())
	}
	return a, err
}

func before(m *rdmadv1.FleetBefore) (*fleet.Before, error) {
	b := &fleet.Before{Errors: m.GetErrorsPerSecond(), P99: m.GetP99().AsDuration(), Conditions: m.GetConditions()}
	if !canReport(b.Conditions) || !isNumber(b.Errors) || b.P99 < 0 {
		return nil, fmt.Errorf("before is not what a node reports")
	}
	return b, nil
}

// Refs writes references.
func Refs(all []fleet.Ref) (out []string) {
	for _, r := range all {
		out = append(out, r.String())
	}
	return out
}
