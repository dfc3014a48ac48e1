package grpcapi

import (
	"context"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/settingsproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// ExportSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) ExportSettings(context.Context, *rdmadv1.ExportSettingsRequest) (*rdmadv1.ExportSettingsResponse, error) {
	d := s.store.Dump()
	scopes := messages(d.Scopes, func(s *settings.ScopeDump) *rdmadv1.ScopeSettings {
		return &rdmadv1.ScopeSettings{Scope: s.Scope.String(), Settings: settingsproto.Message(&s.Values)}
	})
	return &rdmadv1.ExportSettingsResponse{Revision: d.Revision, Base: settingsproto.Message(&d.Base), Scopes: scopes}, nil
}

// ImportSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) ImportSettings(ctx context.Context, req *rdmadv1.ImportSettingsRequest) (*rdmadv1.ImportSettingsResponse, error) {
	d, err := settingsproto.Dump(req)
	if err != nil {
		return nil, err
	}
	result, err := s.store.Load(d, desired.Options{
		DryRun: req.GetDryRun(), Expected: req.ExpectedRevision, Actor: actor(ctx), Comment: req.GetComment(),
	})
	if err != nil {
		return nil, err
	}
	noteChanges(ctx, &result, req.GetDryRun())
	return &rdmadv1.ImportSettingsResponse{
		Revision: result.Revision, Effects: effects(result.Effects), Changes: changes(&result.Step), Unchanged: ifTrue(result.Unchanged),
	}, nil
}
