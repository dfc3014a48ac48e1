package fleetproto

import (
	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// EntryMessage encodes a change of the history.
func EntryMessage(e *fleet.Entry) *rdmadv1.AuditEntry {
	role, _ := auth.ParseRole(e.Role)
	m := &rdmadv1.AuditEntry{
		Sequence: float64(e.Number), Time: Stamp(e.Time), Actor: e.Actor, Role: rdmadv1.Role(role), Origin: e.Origin, Node: e.Node, Action: e.Action,
		Before: e.Before, After: e.After, Outcome: audit.OK,
	}
	if e.Err != nil {
		m.Actor, m.Outcome, m.Reason = auth.Daemon, "DATA_LOSS", e.Err.Error()
	}
	return m
}

// Entry decodes a change of the history.
func Entry(m *rdmadv1.AuditEntry) *fleet.Entry {
	return &fleet.Entry{
		Number: uint64(max(m.GetSequence(), 0)), Time: m.GetTime().AsTime(), Actor: m.GetActor(), Role: auth.Role(m.GetRole()).String(), Origin: m.GetOrigin(),
		Node: m.GetNode(), Action: m.GetAction(), Before: m.GetBefore(), After: m.GetAfter(),
	}
}
