package grpcapi

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/settings"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// Fleet is the fleet of which this rdmad is a node; see store.Store.
type Fleet interface {
	AllNodes(ctx context.Context) ([]*fleet.Node, []error, error)
	WatchNodes(ctx context.Context, from store.Position, changed func(*store.NodeChanges) error) error
	RemoveNode(ctx context.Context, node string) error
	Newest(ctx context.Context) ([]*fleet.Revision, error)
	Apply(ctx context.Context, r fleet.Revision, p *fleet.Plan, dry bool) (*fleet.Rollout, error)
	Selected(ctx context.Context, s fleet.Selector) ([]string, error)
	History(ctx context.Context, before uint64, limit int) ([]*fleet.Entry, bool, error)
	DryRun(ctx context.Context, r *fleet.Revision) ([]*fleet.Effects, error)
	Versions(ctx context.Context, policy string) ([]*fleet.Revision, error)
	Policy(ctx context.Context, ref fleet.Ref) (*fleet.Revision, error)
	AllRollouts(ctx context.Context, policy string) ([]*fleet.Rollout, error)
	Rollout(ctx context.Context, ref fleet.Ref) (*fleet.Rollout, error)
	ChangeRollout(ctx context.Context, ref fleet.Ref, change func(*fleet.Rollout) (*fleet.Rollout, error)) (*fleet.Rollout, error)
	WatchRollout(ctx context.Context, ref fleet.Ref, changed func(*fleet.Rollout) (bool, error)) error
}

type fleetService struct {
	rdmadv1.UnimplementedFleetServiceServer
	fleet Fleet // nil outside of a fleet
}

// Bounds of pages, also for requests that say nothing.
const (
	maxNodes    = 4096
	maxPolicies = fleet.MaxPolicies
)

var errNoFleet = status.Error(codes.FailedPrecondition, "this rdmad is not in a fleet: its configuration has no section fleet")

// ListNodes implements rdmadv1.FleetServiceServer.
func (s *fleetService) ListNodes(ctx context.Context, req *rdmadv1.ListNodesRequest) (*rdmadv1.ListNodesResponse, error) {
	all, problems, err := s.fleet.AllNodes(ctx)
	if err != nil {
		return nil, err
	}
	res := &rdmadv1.ListNodesResponse{}
	res.Nodes, res.NextPageToken, err = pageOf(all, req, maxNodes, "fleet nodes", func(n *fleet.Node) string { return n.Name }, fleetproto.NodeMessage)
	if err != nil {
		return nil, err
	}
	if req.GetPageToken() == "" {
		for _, problem := range problems {
			res.Problems = append(res.Problems, problem.Error())
		}
	}
	return res, nil
}

// RemoveNode implements rdmadv1.FleetServiceServer.
func (s *fleetService) RemoveNode(ctx context.Context, req *rdmadv1.RemoveNodeRequest) (*rdmadv1.RemoveNodeResponse, error) {
	return &rdmadv1.RemoveNodeResponse{}, s.fleet.RemoveNode(ctx, req.GetName())
}

// ListPolicies implements rdmadv1.FleetServiceServer.
func (s *fleetService) ListPolicies(ctx context.Context, req *rdmadv1.ListPoliciesRequest) (*rdmadv1.ListPoliciesResponse, error) {
	all, err := s.fleet.Newest(ctx)
	if err != nil {
		return nil, err
	}
	res := &rdmadv1.ListPoliciesResponse{}
	res.Policies, res.NextPageToken, err = pageOf(all, req, maxPolicies, "fleet policies", func(r *fleet.Revision) string { return r.Name }, fleetproto.RevisionMessage)
	return res, err
}

// ApplyPolicy implements rdmadv1.FleetServiceServer.
func (s *fleetService) ApplyPolicy(ctx context.Context, req *rdmadv1.ApplyPolicyRequest) (*rdmadv1.ApplyPolicyResponse, error) {
	p, err := fleetproto.Policy(req.GetPolicy())
	if err != nil {
		return nil, err
	}
	names, rollout, err := s.begin(ctx, p, req.GetPolicy().GetComment(), req, req.GetDryRun())
	if err != nil {
		return nil, err
	}
	res := &rdmadv1.ApplyPolicyResponse{Policy: p.Name, Revision: rollout.Revision, Nodes: names, RolloutId: rollout.String()}
	if !req.GetDryRun() {
		return res, nil
	}
	all, err := s.fleet.DryRun(ctx, &fleet.Revision{Policy: *p, Revision: rollout.Revision})
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		res.Effects = append(res.Effects, fleetproto.EffectsMessage(e))
	}
	return res, nil
}

// ListHistory implements rdmadv1.FleetServiceServer.
func (s *fleetService) ListHistory(ctx context.Context, req *rdmadv1.ListHistoryRequest) (*rdmadv1.ListHistoryResponse, error) {
	list := func(before uint64, limit int) ([]*fleet.Entry, bool, error) {
		return s.fleet.History(ctx, before, limit)
	}
	all, next, err := pageBefore(req, 64, []string{"fleet history"}, list, func(e *fleet.Entry) uint64 { return e.Number }, fleetproto.EntryMessage)
	return &rdmadv1.ListHistoryResponse{Entries: all, NextPageToken: next}, err
}

// planned is a request that begins a rollout.
type planned interface {
	GetPlan() *rdmadv1.RolloutPlan
	GetAtOnce() bool
}

// begin begins the rollout of a policy's next revision, and returns the nodes that are selected.
func (s *fleetService) begin(ctx context.Context, p *fleet.Policy, comment string, req planned, dry bool) ([]string, *fleet.Rollout, error) {
	var plan *fleet.Plan
	if !req.GetAtOnce() {
		var err error
		if plan, err = fleetproto.Plan(req.GetPlan()); err != nil {
			return nil, nil, err
		}
	} else if req.GetPlan() != nil {
		return nil, nil, invalidField("plan", "has no meaning for a policy that all nodes get at once")
	}
	names, err := s.fleet.Selected(ctx, p.Selector)
	if err != nil {
		return nil, nil, err
	}
	r := fleet.Revision{Policy: *p, Author: actor(ctx).Name, Comment: comment, Time: time.Now().UTC().Truncate(time.Second)}
	rollout, err := s.fleet.Apply(ctx, r, plan, dry)
	if err != nil {
		return nil, nil, err
	}
	return names, rollout, nil
}

// ofEtcd are the codes of statuses that etcd's client returns as they are, and no handler makes: the connection breaks
// off, or the other end refuses it, or is no etcd.
var ofEtcd = []codes.Code{codes.Unavailable, codes.Unimplemented, codes.Unknown, codes.Unauthenticated, codes.PermissionDenied}

// fleetStatus turns an error of the fleet into a status. One that it doesn't know is of etcd.
func fleetStatus(err error) error {
	if st, done := status.FromError(err); done && !slices.Contains(ofEtcd, st.Code()) {
		return err // nil too
	}
	switch {
	case errors.As(err, new(*settings.InvalidError)), errors.As(err, new(*settings.LimitError)):
		return toStatus(err)
	case errors.As(err, new(*store.NoNodeError)), errors.As(err, new(*store.MissingError)):
		return status.Error(codes.NotFound, err.Error())
	case errors.As(err, new(*fleet.ConflictError)), errors.As(err, new(*fleet.ActiveError)), errors.As(err, new(*fleet.StateError)), errors.As(err, new(*store.UpError)):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, store.ErrRace):
		return status.Error(codes.Aborted, err.Error())
	case errors.As(err, new(*store.ValueError)):
		return status.Error(codes.DataLoss, err.Error())
	}
	r := store.Reason(err)
	return status.Errorf(codes.Unavailable, "etcd: %s; %s", status.Convert(err).Message(), r.Remedy)
}
