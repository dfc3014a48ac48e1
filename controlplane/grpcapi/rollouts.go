package grpcapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// ListRollouts implements rdmadv1.FleetServiceServer.
func (s *fleetService) ListRollouts(ctx context.Context, req *rdmadv1.ListRolloutsRequest) (*rdmadv1.ListRolloutsResponse, error) {
	after, err := afterToken(req.GetPageToken(), "rollouts", req.GetPolicy())
	if err != nil {
		return nil, err
	}
	last := fleet.Ref{}
	if after != "" {
		if last, err = fleetproto.Ref(after); err != nil {
			return nil, errPageToken()
		}
	}
	all, err := s.fleet.AllRollouts(ctx, req.GetPolicy())
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r *fleet.Rollout) bool { return after != "" && byPolicy(r.Ref, last) <= 0 })
	slices.SortFunc(all, func(a, b *fleet.Rollout) int { return byPolicy(a.Ref, b.Ref) })
	page, more := fill(all, cmp.Or(int(req.GetPageSize()), defaultPage), fleetproto.RolloutMessage)
	res := &rdmadv1.ListRolloutsResponse{Rollouts: page}
	if more {
		res.NextPageToken = pageToken(page[len(page)-1].GetId(), "rollouts", req.GetPolicy())
	}
	return res, nil
}

// byPolicy orders rollouts by policy, the newest first.
func byPolicy(a, b fleet.Ref) int {
	return cmp.Or(strings.Compare(a.Policy, b.Policy), cmp.Compare(b.Revision, a.Revision))
}

// rolloutRef is the rollout that a request names.
func (s *fleetService) rolloutRef(id string) (fleet.Ref, error) {
	ref, err := fleetproto.Ref(id)
	if err != nil {
		return ref, invalidField("id", err.Error())
	}
	return ref, nil
}

// GetRollout implements rdmadv1.FleetServiceServer.
func (s *fleetService) GetRollout(ctx context.Context, req *rdmadv1.GetRolloutRequest) (*rdmadv1.GetRolloutResponse, error) {
	ref, err := s.rolloutRef(req.GetId())
	if err != nil {
		return nil, err
	}
	r, err := s.fleet.Rollout(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &rdmadv1.GetRolloutResponse{Rollout: fleetproto.RolloutMessage(r)}, nil
}

// WatchRollout implements rdmadv1.FleetServiceServer.
func (s *fleetService) WatchRollout(req *rdmadv1.WatchRolloutRequest, stream grpc.ServerStreamingServer[rdmadv1.WatchRolloutResponse]) error {
	ref, err := s.rolloutRef(req.GetId())
	if err != nil {
		return err
	}
	err = s.fleet.WatchRollout(stream.Context(), ref, func(r *fleet.Rollout) (more bool, err error) {
		return !r.Settled(), stream.Send(&rdmadv1.WatchRolloutResponse{Rollout: fleetproto.RolloutMessage(r)})
	})
	if end := stream.Context().Err(); end != nil {
		return end
	}
	return fleetStatus(err)
}

// change changes a rollout for an operator.
func (s *fleetService) change(ctx context.Context, id string, change func(r *fleet.Rollout, by string, now time.Time) (*fleet.Rollout, error)) (*rdmadv1.FleetRollout, error) {
	ref, err := s.rolloutRef(id)
	if err != nil {
		return nil, err
	}
	r, err := s.fleet.ChangeRollout(ctx, ref, func(r *fleet.Rollout) (*fleet.Rollout, error) {
		return change(r, actor(ctx).Name, time.Now().UTC().Truncate(time.Second))
	})
	if err != nil {
		return nil, err
	}
	return fleetproto.RolloutMessage(r), nil
}

// PauseRollout implements rdmadv1.FleetServiceServer.
func (s *fleetService) PauseRollout(ctx context.Context, req *rdmadv1.PauseRolloutRequest) (*rdmadv1.PauseRolloutResponse, error) {
	r, err := s.change(ctx, req.GetId(), (*fleet.Rollout).Pause)
	return &rdmadv1.PauseRolloutResponse{Rollout: r}, err
}

// ResumeRollout implements rdmadv1.FleetServiceServer.
func (s *fleetService) ResumeRollout(ctx context.Context, req *rdmadv1.ResumeRolloutRequest) (*rdmadv1.ResumeRolloutResponse, error) {
	r, err := s.change(ctx, req.GetId(), (*fleet.Rollout).Resume)
	return &rdmadv1.ResumeRolloutResponse{Rollout: r}, err
}

// AbortRollout implements rdmadv1.FleetServiceServer.
func (s *fleetService) AbortRollout(ctx context.Context, req *rdmadv1.AbortRolloutRequest) (*rdmadv1.AbortRolloutResponse, error) {
	r, err := s.change(ctx, req.GetId(), (*fleet.Rollout).Abort)
	return &rdmadv1.AbortRolloutResponse{Rollout: r}, err
}

// RollbackPolicy implements rdmadv1.FleetServiceServer.
func (s *fleetService) RollbackPolicy(ctx context.Context, req *rdmadv1.RollbackPolicyRequest) (*rdmadv1.RollbackPolicyResponse, error) {
	ref := fleet.Ref{Policy: req.GetPolicy(), Revision: req.GetRevision()}
	if text := fleet.NameProblem(ref.Policy); text != "" {
		return nil, invalidField("policy", text)
	}
	earlier, err := s.fleet.Policy(ctx, ref)
	if err != nil {
		return nil, err
	}
	comment := cmp.Or(req.GetComment(), fmt.Sprintf("rollback to %d", ref.Revision))
	names, rollout, err := s.begin(ctx, &earlier.Policy, comment, req, false)
	if err != nil {
		return nil, err
	}
	return &rdmadv1.RollbackPolicyResponse{Policy: ref.Policy, Revision: rollout.Revision, Nodes: names, RolloutId: rollout.String()}, nil
}

// ListPolicyRevisions implements rdmadv1.FleetServiceServer.
func (s *fleetService) ListPolicyRevisions(ctx context.Context, req *rdmadv1.ListPolicyRevisionsRequest) (*rdmadv1.ListPolicyRevisionsResponse, error) {
	if text := fleet.NameProblem(req.GetPolicy()); text != "" {
		return nil, invalidField("policy", text)
	}
	list := func(before uint64, limit int) ([]*fleet.Revision, bool, error) {
		all, err := s.fleet.Versions(ctx, req.GetPolicy())
		if before > 0 {
			all = slices.DeleteFunc(all, func(r *fleet.Revision) bool { return uint64(r.Revision) >= before })
		}
		return all[:min(limit, len(all))], len(all) > limit, err
	}
	page, next, err := pageBefore(req, 32, []string{"fleet policy", req.GetPolicy()}, list, func(r *fleet.Revision) uint64 { return uint64(r.Revision) }, fleetproto.RevisionMessage)
	if err != nil {
		return nil, err
	}
	rollouts, err := s.fleet.AllRollouts(ctx, req.GetPolicy())
	if err != nil {
		return nil, err
	}
	states := make(map[uint32]rdmadv1.FleetRollout_State)
	for _, r := range rollouts {
		states[r.Revision] = fleetproto.RolloutState(r.State)
	}
	res := &rdmadv1.ListPolicyRevisionsResponse{Revisions: page, NextPageToken: next}
	for _, r := range page {
		res.States = append(res.States, states[r.GetRevision()])
	}
	return res, nil
}
