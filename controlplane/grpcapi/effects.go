package grpcapi

import (
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// effects is what a change did to each connection.
func effects(all []dataplane.Effect) []*rdmadv1.Effect {
	out := make([]*rdmadv1.Effect, len(all))
	for i, e := range all {
		out[i] = &rdmadv1.Effect{ConnectionId: e.ConnID, Outcome: outcomes[e.Outcome], Reason: e.Reason}
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
	if f := step.File; f != nil {
		out = differences(out, "config", &f.Before.Values, &f.After.Values)
	}
	for i := range step.Deltas {
		d := &step.Deltas[i]
		out = differences(out, d.Scope.String(), &d.Before.Values, &d.After.Values)
	}
	return out
}

func differences(out []*rdmadv1.SettingChange, scope string, before, after *settings.Values) []*rdmadv1.SettingChange {
	for _, k := range before.Differ(after).Keys() {
		out = append(out, &rdmadv1.SettingChange{
			Scope: scope, Key: k.String(), Before: before.Format(k), After: after.Format(k),
		})
	}
	return out
}
