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
	base, err := settings.ParseValues(d.Base)
	if err != nil {
		return nil, err
	}
	res := &rdmadv1.ExportSettingsResponse{Revision: d.Revision, Base: settingsproto.Message(&base)}
	for _, scope := range d.Scopes {
		v, err := settings.ParseValues(scope.Values)
		if err != nil {
			return nil, err
		}
		res.Scopes = append(res.Scopes, &rdmadv1.ScopeSettings{Scope: scope.Scope, Settings: settingsproto.Message(&v)})
	}
	return res, nil
}

// ImportSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) ImportSettings(ctx context.Context, req *rdmadv1.ImportSettingsRequest) (*rdmadv1.ImportSettingsResponse, error) {
	base := settingsproto.Values(req.GetBase())
	d := settings.Dump{Base: base.Text()}
	for _, scope := range req.GetScopes() {
		v := settingsproto.Values(scope.GetSettings())
		d.Scopes = append(d.Scopes, settings.ScopeDump{Scope: scope.GetScope(), Values: v.Text()})
	}
	result, err := s.store.Load(&d, desired.Options{
		DryRun: req.GetDryRun(), Expected: req.ExpectedRevision, Actor: actor(ctx), Comment: req.GetComment(),
	})
	if err != nil {
		return nil, err
	}
	noteChanges(ctx, &result, req.GetDryRun())
	res := &rdmadv1.ImportSettingsResponse{
		Revision: result.Revision, Effects: effects(result.Effects), Changes: changes(&result.Step),
	}
	if result.Unchanged {
		res.Unchanged = &result.Unchanged
	}
	return res, nil
}
