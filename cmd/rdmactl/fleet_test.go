package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
)

// fakeFleet has two nodes, and the policies that were applied.
type fakeFleet struct {
	policies []*fleet.Revision
	rollouts []*fleet.Rollout
}

// fleetTime is when everything of the fleet was made.
var fleetTime = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

func (f *fakeFleet) AllNodes(context.Context) ([]*fleet.Node, []error, error) {
	return []*fleet.Node{
		{
			Name: "a", Up: true, Identity: fleet.Identity{Labels: fleet.Labels{"role": "gateway"}, Version: "v1", Control: "192.0.2.1:20050"},
			Assigned: fleet.Assigned{Assignment: fleet.Assignment{Policies: []fleet.Ref{{Policy: "small", Revision: 1}}}, At: 15},
			Report: &fleet.Report{
				Assigned: 15, Applied: 15, Outcomes: fleet.Outcomes{Applied: 2, PendingReconnect: 1}, Time: fleetTime,
				Load: fleet.Load{Calls: 120.5, Errors: 0.5, P99: 2 * time.Millisecond, Connections: 3},
				Pins: []string{"global: inline.send_max is 1024, policy small@1 gives 2048"},
				Conditions: []fleet.Condition{{
					Kind: "listener", Name: "nfs", Status: "DEGRADED", Reason: "Unreachable", Message: "port 1 is DOWN", Remedy: "bring it back", Since: fleetTime,
				}},
			},
		},
		{Name: "b", Assigned: fleet.Assigned{At: 16}, Report: &fleet.Report{Assigned: 16, Applied: 9, Refused: "listener/x: there is no such listener", Time: fleetTime}},
	}, []error{&store.ValueError{Key: "/rdmad/node/c", Err: errors.New("garbage")}, &store.ValueError{Key: "/rdmad/node/\x1b[2J", Err: errors.New("garbage")}}, nil
}

// WatchNodes ends once as a restart of rdmad would. Resumed, it has a node that was removed.
func (f *fakeFleet) WatchNodes(ctx context.Context, from store.Position, changed func(*store.NodeChanges) error) error {
	all, problems, err := f.AllNodes(ctx)
	if err != nil {
		return err
	}
	if from == (store.Position{Cluster: 10, Revision: 7}) {
		err = changed(&store.NodeChanges{Gone: []string{"b"}, At: store.Position{Cluster: 10, Revision: 8}})
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	}
	idle := *all[0]
	report := *idle.Report
	report.Load, report.Time = fleet.Load{}, time.Now()
	idle.Report = &report
	for _, c := range []*store.NodeChanges{
		{Listed: true, Nodes: all, Problems: problems, At: store.Position{Cluster: 10, Revision: 5}},
		{Nodes: []*fleet.Node{&idle}, At: store.Position{Cluster: 10, Revision: 6}},
		{Nodes: []*fleet.Node{{Name: "a", Assigned: fleet.Assigned{At: 17}, Report: all[0].Report}}, At: store.Position{Cluster: 10, Revision: 7}},
	} {
		if err := changed(c); err != nil {
			return err
		}
	}
	return errors.New("etcd is away")
}

func (f *fakeFleet) Newest(context.Context) ([]*fleet.Revision, error) {
	return fleet.Newest(f.policies), nil
}

func (f *fakeFleet) Apply(_ context.Context, r fleet.Revision, p *fleet.Plan, dry bool) (*fleet.Rollout, error) {
	if err := fleet.Conflicts(&r.Policy, f.policies); err != nil {
		return nil, err
	}
	r.Revision, r.Time = uint32(len(f.policies)+1), fleetTime
	v := fleet.NewView()
	for _, node := range []string{"a", "c", "d"} {
		v.Members[node] = &fleet.Member{Node: fleet.Node{Up: true, Identity: fleet.Identity{Labels: fleet.Labels{"role": "gateway"}}}}
	}
	rollout := v.Start(&r, p, fleetTime)
	if !dry {
		f.policies, f.rollouts = append(f.policies, &r), append(f.rollouts, rollout)
	}
	return rollout, nil
}

func (f *fakeFleet) Versions(_ context.Context, policy string) (all []*fleet.Revision, err error) {
	for _, r := range slices.Backward(f.policies) {
		if r.Name == policy {
			all = append(all, r)
		}
	}
	if all == nil {
		err = &store.MissingError{What: "policy", Ref: fleet.Ref{Policy: policy}}
	}
	return all, err
}

func (f *fakeFleet) Policy(_ context.Context, ref fleet.Ref) (*fleet.Revision, error) {
	for _, r := range f.policies {
		if r.Ref() == ref {
			return r, nil
		}
	}
	return nil, &store.MissingError{What: "policy", Ref: ref}
}

func (f *fakeFleet) AllRollouts(context.Context, string) ([]*fleet.Rollout, error) {
	return slices.Clone(f.rollouts), nil
}

func (f *fakeFleet) Rollout(_ context.Context, ref fleet.Ref) (*fleet.Rollout, error) {
	for _, r := range f.rollouts {
		if r.Ref == ref {
			return r, nil
		}
	}
	return nil, &store.MissingError{What: "rollout", Ref: ref}
}

func (f *fakeFleet) ChangeRollout(ctx context.Context, ref fleet.Ref, change func(*fleet.Rollout) (*fleet.Rollout, error)) (*fleet.Rollout, error) {
	r, err := f.Rollout(ctx, ref)
	if err != nil {
		return nil, err
	}
	next, err := change(r)
	if err == nil {
		*r = *next
	}
	return next, err
}

func (f *fakeFleet) WatchRollout(ctx context.Context, ref fleet.Ref, changed func(*fleet.Rollout) (bool, error)) error {
	r, err := f.Rollout(ctx, ref)
	if err == nil {
		_, err = changed(r)
	}
	return err
}

func (f *fakeFleet) DryRun(context.Context, *fleet.Revision) ([]*fleet.Effects, error) {
	return []*fleet.Effects{
		{
			Node: "a", Answer: fleet.Accepted, Outcomes: fleet.Outcomes{Applied: 2, PendingReconnect: 1},
			Changes: []fleet.Change{{Scope: "global", Key: "inline.send_max", Before: "4096", After: "2048"}, {Scope: "listener/nfs", Key: "credits.max", Before: "64", After: "9"}},
			Pins:    []string{"global: credits.min is 2, policy small@1 gives 1"},
		},
		{Node: "b", Reason: "the node is DOWN"},
		{Node: "c", Answer: fleet.Refused, Reason: "listener/nfs: there is no such listener"},
	}, nil
}

func (f *fakeFleet) RemoveNode(_ context.Context, node string) error {
	switch node {
	case "a":
		return &store.UpError{Node: node}
	case "b":
		return nil
	}
	return &store.NoNodeError{Node: node}
}

func (f *fakeFleet) History(_ context.Context, before uint64, limit int) (list []*fleet.Entry, more bool, err error) {
	all := []*fleet.Entry{
		{Number: 9, Err: &store.ValueError{Key: "/rdmad/audit/9", Err: errors.New("garbage")}},
		{Number: 8, Time: fleetTime, Actor: "alice", Role: "operator", Origin: "192.0.2.7:1001", Node: "a", Action: "rdmad.v1.FleetService/ApplyPolicy", Before: "small@1: old", After: "small@2: new"},
	}
	for _, e := range all {
		if (before == 0 || e.Number < before) && len(list) < limit {
			list = append(list, e)
		}
	}
	return list, len(list) > 0 && list[len(list)-1].Number > 8, nil
}

func (f *fakeFleet) Selected(_ context.Context, s fleet.Selector) ([]string, error) {
	if s.Matches(fleet.Labels{"role": "gateway"}) {
		return []string{"a"}, nil
	}
	return nil, nil
}
