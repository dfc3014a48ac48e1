package grpcapi

import (
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// effects is what a change did to each connection.
func effects(all []dataplane.Effect) []*rdmadv1.Effect {
	out, store := make([]*rdmadv1.Effect, len(all)), make([]rdmadv1.Effect, len(all)) // one allocation for thousands
	for i := range all {
		e := &all[i]
		out[i] = &store[i]
		out[i].ConnectionId, out[i].Outcome, out[i].Reason = e.ConnID, outcomes[e.Outcome], e.Reason
	}
	return out
}

var outcomes = [...]rdmadv1.Effect_Outcome{
	dataplane.Applied:          rdmadv1.Effect_APPLIED,
	dataplane.PendingReconnect: rdmadv1.Effect_PENDING_RECONNECT,
	dataplane.Unsupported:      rdmadv1.Effect_UNSUPPORTED,
}

// changes is what a step changed, value by value.
func changes(step *settings.Step) (out []*rdmadv1.SettingChange) {
	for _, d := range step.Differences() {
		out = append(out, &rdmadv1.SettingChange{Scope: d.Place, Key: d.Key.String(), Before: d.Before, After: d.After})
	}
	return out
}
