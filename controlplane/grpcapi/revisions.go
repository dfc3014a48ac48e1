package grpcapi

import (
	"context"

	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// ConfirmSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) ConfirmSettings(ctx context.Context, req *rdmadv1.ConfirmSettingsRequest) (*rdmadv1.ConfirmSettingsResponse, error) {
	revision := req.GetRevision()
	if p := s.store.Pending(); revision == 0 && p != nil {
		revision = p.Revision
	}
	if err := s.store.Confirm(revision); err != nil {
		return nil, err
	}
	audit.Note(ctx, "unconfirmed", "confirmed", revision)
	return &rdmadv1.ConfirmSettingsResponse{Revision: revision}, nil
}

// ListRevisions implements rdmadv1.SettingsServiceServer.
func (s *settingsService) ListRevisions(_ context.Context, req *rdmadv1.ListRevisionsRequest) (*rdmadv1.ListRevisionsResponse, error) {
	list := func(before uint64, limit int) ([]*history.Entry, bool, error) {
		all := s.store.History(uint32(before), limit+1) // one more says that there is more
		return all[:min(len(all), limit)], len(all) > limit, nil
	}
	all, next, err := pageBefore(req, 32, []string{"revisions"}, list, func(e *history.Entry) uint64 { return uint64(e.Revision) }, revision)
	return &rdmadv1.ListRevisionsResponse{Revisions: all, NextPageToken: next}, err
}

// RollbackSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) RollbackSettings(ctx context.Context, req *rdmadv1.RollbackSettingsRequest) (*rdmadv1.RollbackSettingsResponse, error) {
	result, err := s.store.Rollback(req.GetRevision(), desired.Options{
		DryRun: req.GetDryRun(), Expected: req.ExpectedRevision, Actor: actor(ctx), Comment: req.GetComment(),
	})
	if err != nil {
		return nil, err
	}
	noteChanges(ctx, &result, req.GetDryRun())
	return &rdmadv1.RollbackSettingsResponse{
		Revision: result.Revision, Effects: effects(result.Effects), Changes: changes(&result.Step), Unchanged: ifTrue(result.Unchanged),
	}, nil
}

// WatchSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) WatchSettings(_ *rdmadv1.WatchSettingsRequest, stream grpc.ServerStreamingServer[rdmadv1.WatchSettingsResponse]) error {
	w, err := s.store.Watch()
	if err != nil {
		return err
	}
	defer w.Close()
	// The client knows from the header that nothing is missed from now on.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	return sending(w.Done(), w.Err, func() error {
		return w.Each(stream.Context(), func(e *history.Entry) error {
			return stream.Send(&rdmadv1.WatchSettingsResponse{Revision: revision(e)})
		})
	})
}

// revision is the one place where a revision becomes protobuf.
func revision(e *history.Entry) *rdmadv1.Revision {
	r := &rdmadv1.Revision{
		Revision: e.Revision,
		Time:     timestamp(e.Time),
		Actor:    e.Actor.Name,
		Kind:     revisionKinds[e.Kind],
		State:    revisionStates[e.Status],
		Changes:  changes(&e.Step),
		Comment:  e.Comment,
		Restored: e.Target,
	}
	if e.Kind == history.Set {
		r.Scope = e.Scope.String()
	}
	return r
}

var revisionKinds = [history.NumKinds]rdmadv1.Revision_Kind{
	history.Set:          rdmadv1.Revision_SET,
	history.Rollback:     rdmadv1.Revision_ROLLBACK,
	history.AutoRollback: rdmadv1.Revision_EXPIRED,
	history.Reload:       rdmadv1.Revision_RELOAD,
	history.Load:         rdmadv1.Revision_IMPORT,
	history.Fleet:        rdmadv1.Revision_FLEET,
}

var revisionStates = [history.NumStatuses]rdmadv1.Revision_State{
	history.Applied:    rdmadv1.Revision_KEPT,
	history.Pending:    rdmadv1.Revision_UNCONFIRMED,
	history.Confirmed:  rdmadv1.Revision_KEPT,
	history.RolledBack: rdmadv1.Revision_UNDONE,
}
