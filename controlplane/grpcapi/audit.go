package grpcapi

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// auditService implements rdmad.v1.AuditService.
type auditService struct {
	rdmadv1.UnimplementedAuditServiceServer
	gate *gate
}

// ListAudit implements rdmadv1.AuditServiceServer.
func (s *auditService) ListAudit(ctx context.Context, req *rdmadv1.ListAuditRequest) (*rdmadv1.ListAuditResponse, error) {
	if s.gate.log == nil {
		return nil, status.Error(codes.FailedPrecondition, "rdmad keeps no audit log")
	}
	q := audit.Query{Actor: req.GetActor()}
	if t := req.GetSince(); t != nil {
		q.Since = t.AsTime()
	}
	filters := []string{"audit", q.Actor, q.Since.UTC().String()}
	list := func(before uint64, limit int) ([]audit.Entry, bool, error) {
		q.Before, q.Limit = before, limit
		all, more, err := s.gate.log.List(ctx, q)
		if err != nil {
			err = status.Errorf(codes.Internal, "audit log: %v", err)
		}
		return all, more, err
	}
	all, next, err := pageBefore(req, 64, filters, list, func(e audit.Entry) uint64 { return e.Sequence }, auditEntry)
	return &rdmadv1.ListAuditResponse{Entries: all, NextPageToken: next}, err
}

func auditEntry(e audit.Entry) *rdmadv1.AuditEntry {
	role, _ := auth.ParseRole(e.Role)
	return &rdmadv1.AuditEntry{
		Sequence: float64(e.Sequence),
		Time:     timestamp(e.Time),
		Actor:    e.Actor,
		Role:     rdmadv1.Role(role),
		Origin:   e.Origin,
		Action:   e.Action,
		Request:  e.Request,
		Before:   e.Before,
		After:    e.After,
		Outcome:  e.Outcome,
		Reason:   e.Reason,
		Revision: e.Revision,
	}
}
