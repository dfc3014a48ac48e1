package agent

import (
	"context"
	"errors"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/dataplane/conditions"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// take applies an assignment that was read. An error is one of etcd; that of an assignment
// which can't be applied is in refused.
func (a *Agent) take(ctx context.Context, got *store.Assignment) error {
	if err := a.known(got); err != nil {
		return err
	}
	if a.seen != nil && (got.Cluster != a.seen.Cluster || got.Read < a.seen.Revision) {
		a.seen, a.refused = nil, nil // of data that etcd has no longer; nothing of them is in force
	}
	switch {
	case got.Revision == 0: // nothing assigned: what is in force stays
		if a.seen != nil && a.seen.Err != nil {
			a.seen, a.refused = nil, nil
		}
		return nil
	case a.seen != nil && got.Revision < a.seen.Revision:
		return nil
	}
	if a.seen == nil || a.seen.Created != got.Created {
		a.policies = nil // the fleet's keys may have been deleted: other policies can have the same names and revisions
	}
	a.seen = got
	return a.apply(ctx)
}

// apply applies the newest assignment; it does nothing if that is in force.
func (a *Agent) apply(ctx context.Context) error {
	if a.seen == nil {
		return nil
	}
	if a.refused = a.seen.Err; a.refused != nil {
		return nil //nolint:nilerr // reported as refused
	}
	all, err := a.versions(ctx)
	switch {
	case err != nil && unreadable(err):
		a.refused = err
		return nil
	case err != nil:
		return err
	}
	layer := fleet.Layer(all)
	layer.Cluster, layer.Assignment = a.seen.Cluster, a.seen.Revision
	before, _ := a.Local.Fleet()
	res, ok, err := a.Local.Assign(layer, a.seen.ConfirmWithin)
	if a.refused = err; ok {
		if !layer.Same(&before) || before.TakenBack != 0 { // the outcomes of a change that is confirmed stay
			a.outcomes = count(res.Effects)
		}
		a.Logger.Info("fleet: assignment in force", "node", a.Node, "assignment", layer.Assignment, "policies", a.seen.Policies, "confirm_within", a.seen.ConfirmWithin,
			"revision", res.Revision)
	}
	return nil
}

// versions reads the policies of the newest assignment.
func (a *Agent) versions(ctx context.Context) (all []*fleet.Revision, err error) {
	known := make(map[fleet.Ref]*fleet.Revision)
	for _, ref := range a.seen.Policies {
		r := a.policies[ref]
		if r == nil {
			if r, err = a.Store.Policy(ctx, ref); err != nil {
				return nil, err
			}
		}
		known[ref] = r
		all = append(all, r)
	}
	a.policies = known
	return all, nil
}

func count(effects []desired.Effect) (n fleet.Outcomes) {
	for _, e := range effects {
		switch {
		case e.Ended:
		case e.Outcome == live.Applied:
			n.Applied++
		case e.Outcome == live.PendingReconnect:
			n.PendingReconnect++
		default:
			n.Unsupported++
		}
	}
	return n
}

// settled makes the state of the newest assignment the node's condition.
func (a *Agent) settled() {
	switch {
	case a.refused == nil && a.slow >= slowReports:
		a.found(conditions.FleetSlow, "")
	case a.refused == nil:
		a.found(conditions.FleetJoined, "")
	case errors.As(a.refused, new(*store.ValueError)):
		a.found(conditions.FleetUnreadable, a.refused.Error())
	default:
		a.found(conditions.FleetNotApplied, a.refused.Error())
	}
}
