package fleetproto

import (
	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

var answers = [...]rdmadv1.NodeEffects_Answer{
	fleet.NoAnswer: rdmadv1.NodeEffects_NO_ANSWER,
	fleet.Accepted: rdmadv1.NodeEffects_ACCEPTED,
	fleet.Refused:  rdmadv1.NodeEffects_REFUSED,
}

// EffectsMessage encodes the effects of a policy on a node.
func EffectsMessage(e *fleet.Effects) *rdmadv1.NodeEffects {
	m := &rdmadv1.NodeEffects{Node: e.Node, Answer: answers[e.Answer], Reason: e.Reason, Pins: e.Pins, Connections: outcomesMessage(&e.Outcomes)}
	for _, c := range e.Changes {
		m.Changes = append(m.Changes, &rdmadv1.SettingChange{Scope: c.Scope, Key: c.Key, Before: c.Before, After: c.After})
	}
	return m
}

// Effects decodes the effects of a policy on a node.
func Effects(m *rdmadv1.NodeEffects) *fleet.Effects {
	e := &fleet.Effects{Node: m.GetNode(), Reason: m.GetReason(), Outcomes: outcomes(m.GetConnections())}
	for answer, number := range answers {
		if number == m.GetAnswer() {
			e.Answer = fleet.Answer(answer)
		}
	}
	e.Pins = m.GetPins()[:min(len(m.GetPins()), fleet.MaxEffects)]
	for _, c := range m.GetChanges()[:min(len(m.GetChanges()), fleet.MaxEffects)] {
		e.Changes = append(e.Changes, fleet.Change{Scope: c.GetScope(), Key: c.GetKey(), Before: c.GetBefore(), After: c.GetAfter()})
	}
	return e
}

func outcomesMessage(n *fleet.Outcomes) *rdmadv1.FleetOutcomes {
	return &rdmadv1.FleetOutcomes{Applied: n.Applied, PendingReconnect: n.PendingReconnect, Unsupported: n.Unsupported}
}

func outcomes(m *rdmadv1.FleetOutcomes) fleet.Outcomes {
	return fleet.Outcomes{Applied: m.GetApplied(), PendingReconnect: m.GetPendingReconnect(), Unsupported: m.GetUnsupported()}
}
