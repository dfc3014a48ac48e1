package grpcapi

import (
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// effects is what a change did to each connection.
func effects(all []desired.Effect) []*rdmadv1.Effect {
	out, store := make([]*rdmadv1.Effect, len(all)), make([]rdmadv1.Effect, len(all)) // one allocation for thousands
	for i := range all {
		e := &all[i]
		out[i] = &store[i]
		out[i].ConnectionId, out[i].Outcome, out[i].Reason = e.ConnID, outcomes[e.Outcome], e.Reason
	}
	return out
}

var outcomes = [...]rdmadv1.Effect_Outcome{
	live.Applied:          rdmadv1.Effect_APPLIED,
	live.PendingReconnect: rdmadv1.Effect_PENDING_RECONNECT,
	live.Unsupported:      rdmadv1.Effect_UNSUPPORTED,
}

// ifTrue leaves a field absent that only says yes.
func ifTrue(yes bool) *bool {
	if !yes {
		return nil
	}
	return &yes
}

// changes is what a step changed, value by value.
func changes(step *settings.Step) []*rdmadv1.SettingChange {
	return messages(step.Differences(), func(d *settings.Difference) *rdmadv1.SettingChange {
		return &rdmadv1.SettingChange{Scope: d.Place, Key: d.Key.String(), Before: d.Before, After: d.After}
	})
}
