package grpcapi

import (
	"cmp"
	"context"
	"strconv"

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

const auditPage = 100 // entries of one answer, when the request says nothing

// ListAudit implements rdmadv1.AuditServiceServer.
func (s *auditService) ListAudit(ctx context.Context, req *rdmadv1.ListAuditRequest) (*rdmadv1.ListAuditResponse, error) {
	if s.gate.log == nil {
		return nil, status.Error(codes.FailedPrecondition, "rdmad keeps no audit log")
	}
	q := audit.Query{Actor: req.GetActor(), Limit: cmp.Or(int(req.GetPageSize()), auditPage)}
	if t := req.GetSince(); t != nil {
		q.Since = t.AsTime()
	}
	filters := []string{"audit", q.Actor, q.Since.UTC().String()}
	var err error
	if q.Before, err = sequenceAfter(req.GetPageToken(), 64, filters...); err != nil {
		return nil, err
	}
	entries, more, err := s.gate.log.List(ctx, q)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "audit log: %v", err)
	}
	res := &rdmadv1.ListAuditResponse{Entries: make([]*rdmadv1.AuditEntry, len(entries))}
	for i := range entries {
		res.Entries[i] = auditEntry(&entries[i])
	}
	if more {
		res.NextPageToken = pageToken(strconv.FormatUint(entries[len(entries)-1].Sequence, 10), filters...)
	}
	return res, nil
}

func auditEntry(e *audit.Entry) *rdmadv1.AuditEntry {
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
