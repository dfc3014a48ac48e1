package fleetproto

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// PresenceMessage encodes a node's identity for its presence.
func PresenceMessage(n *fleet.Identity) *rdmadv1.FleetPresence {
	return &rdmadv1.FleetPresence{Labels: n.Labels, Version: n.Version, ControlAddress: n.Control, Since: Stamp(n.Since)}
}

// Presence decodes a node's identity.
func Presence(m *rdmadv1.FleetPresence) (*fleet.Identity, error) {
	n := &fleet.Identity{Labels: m.GetLabels(), Version: m.GetVersion(), Control: m.GetControlAddress(), Since: m.GetSince().AsTime()}
	return n, n.Labels.Check()
}

// Ref reads NAME@REVISION.
func Ref(text string) (fleet.Ref, error) {
	name, number, ok := strings.Cut(text, "@")
	n, err := strconv.ParseUint(number, 10, 32)
	r := fleet.Ref{Policy: name, Revision: uint32(n)}
	if !ok || err != nil || fleet.NameProblem(name) != "" || r.String() != text || n == 0 {
		return fleet.Ref{}, fmt.Errorf("%q is not NAME@REVISION", text)
	}
	return r, nil
}

// isNumber reports whether a node can report a number. A float64 has all whole numbers up to 1<<53.
func isNumber(n float64) bool { return n >= 0 && n <= 1<<53 }

// StatusMessage encodes a report without its conditions.
func StatusMessage(n *fleet.Identity, s *fleet.Report) *rdmadv1.FleetStatus {
	m := &rdmadv1.FleetStatus{
		Labels: n.Labels, Version: n.Version, ControlAddress: n.Control,
		AssignedRevision: float64(s.Assigned), AppliedRevision: float64(s.Applied), Refused: s.Refused, Pins: s.Pins, Time: Stamp(s.Time),
		CallsPerSecond: s.Load.Calls, ErrorsPerSecond: s.Load.Errors, P99: durationpb.New(s.Load.P99), Connections: s.Load.Connections,
		Outcomes: outcomesMessage(&s.Outcomes),
	}
	for _, c := range s.Conditions {
		m.Conditions = append(m.Conditions, &rdmadv1.Condition{
			Kind: c.Kind, Name: c.Name, Status: rdmadv1.Condition_Status(rdmadv1.Condition_Status_value[c.Status]), Reason: c.Reason,
			Message: c.Message, Remedy: c.Remedy, Since: Stamp(c.Since),
		})
	}
	return m
}

// Status decodes a report. It refuses numbers that no node reports: NaN, for example, would pass every gate, because
// no comparison with it holds. It also refuses conditions that no assignment can have as those from before a rollout.
func Status(m *rdmadv1.FleetStatus) (*fleet.Identity, *fleet.Report, error) {
	for _, n := range []float64{
		m.GetAssignedRevision(), m.GetAppliedRevision(), m.GetCallsPerSecond(), m.GetErrorsPerSecond(), m.GetP99().AsDuration().Seconds(),
	} {
		if !isNumber(n) {
			return nil, nil, fmt.Errorf("%v is not a number that a node reports", n)
		}
	}
	n := &fleet.Identity{Labels: m.GetLabels(), Version: m.GetVersion(), Control: m.GetControlAddress()}
	s := &fleet.Report{
		Assigned: int64(m.GetAssignedRevision()), Applied: int64(m.GetAppliedRevision()), Refused: m.GetRefused(), Pins: m.GetPins(), Time: m.GetTime().AsTime(),
		Outcomes: outcomes(m.GetOutcomes()),
		Load:     fleet.Load{Calls: m.GetCallsPerSecond(), Errors: m.GetErrorsPerSecond(), P99: m.GetP99().AsDuration(), Connections: m.GetConnections()},
	}
	for _, c := range m.GetConditions() {
		s.Conditions = append(s.Conditions, fleet.Condition{
			Kind: c.GetKind(), Name: c.GetName(), Status: c.GetStatus().String(), Reason: c.GetReason(), Message: c.GetMessage(),
			Remedy: c.GetRemedy(), Since: c.GetSince().AsTime(),
		})
	}
	if !canReport(s.IDs()) {
		return nil, nil, fmt.Errorf("%d conditions are more, or longer, than a node reports", len(s.Conditions))
	}
	return n, s, n.Labels.Check()
}

// NodeMessage encodes a node.
func NodeMessage(n *fleet.Node) *rdmadv1.FleetNode {
	m := &rdmadv1.FleetNode{
		Name: n.Name, Labels: n.Labels, State: rdmadv1.FleetNode_DOWN, Version: n.Version, AssignedRevision: float64(n.Assigned.At),
		Policies: Refs(n.Assigned.Policies), Healthy: n.Healthy(), Drift: n.Drift(),
	}
	if n.Up {
		m.State = rdmadv1.FleetNode_UP
	}
	if n.Report != nil {
		m.Status, m.AppliedRevision = StatusMessage(&n.Identity, n.Report), float64(n.Report.Applied)
	}
	return m
}
