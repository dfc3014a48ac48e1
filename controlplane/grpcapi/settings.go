package grpcapi

import (
	"context"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/settingsproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// settingsService implements rdmad.v1.SettingsService.
type settingsService struct {
	rdmadv1.UnimplementedSettingsServiceServer
	store *desired.Store
}

// GetSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) GetSettings(_ context.Context, req *rdmadv1.GetSettingsRequest) (*rdmadv1.GetSettingsResponse, error) {
	scope, err := settings.ParseScope(req.GetScope())
	if err != nil {
		return nil, err
	}
	view, err := s.store.Get(scope)
	if err != nil {
		return nil, err
	}
	shown, err := choose(&view.Values, req.GetKeys())
	if err != nil {
		return nil, err
	}
	res := &rdmadv1.GetSettingsResponse{
		Revision: view.Revision,
		Scope:    scope.String(),
		Settings: settingsproto.Message(&shown),
	}
	for _, k := range shown.Keys().Keys() {
		res.Values = append(res.Values, settingValue(k, shown.Format(k), view.Origins[k]))
	}
	return res, nil
}

// choose keeps the values that names stand for, whole names or first parts;
// all when there are no names.
func choose(v *settings.Values, names []string) (settings.Values, error) {
	if len(names) == 0 {
		return *v, nil
	}
	var wanted settings.KeySet
	for _, name := range names {
		keys := live.Match(name)
		if keys == 0 {
			return settings.Values{}, invalidField("keys", "there is no setting "+name)
		}
		wanted |= keys
	}
	return v.Only(wanted), nil
}

// SetSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) SetSettings(ctx context.Context, req *rdmadv1.SetSettingsRequest) (*rdmadv1.SetSettingsResponse, error) {
	change, err := toChange(req)
	if err != nil {
		return nil, err
	}
	result, err := s.store.Set(change, desired.Options{
		DryRun: req.GetDryRun(), ConfirmWithin: req.GetConfirmWithin().AsDuration(), Actor: actor(ctx), Comment: req.GetComment(),
	})
	if err != nil {
		return nil, err
	}
	noteChanges(ctx, &result, req.GetDryRun())
	return &rdmadv1.SetSettingsResponse{
		Revision: result.Revision, Effects: effects(result.Effects), ConfirmDeadline: timestamp(result.ConfirmDeadline), Unchanged: ifTrue(result.Unchanged),
	}, nil
}

// ExplainSetting implements rdmadv1.SettingsServiceServer.
func (s *settingsService) ExplainSetting(_ context.Context, req *rdmadv1.ExplainSettingRequest) (*rdmadv1.ExplainSettingResponse, error) {
	scope, err := settings.ParseScope(req.GetScope())
	if err != nil {
		return nil, err
	}
	k, ok := live.ParseKey(req.GetKey())
	if !ok {
		return nil, invalidField("key", "there is no setting "+req.GetKey())
	}
	at, said, err := s.store.Explain(scope, k)
	if err != nil {
		return nil, err
	}
	row := k.Row()
	res := &rdmadv1.ExplainSettingResponse{
		Revision: at, Summary: row.Summary, Allowed: row.Allowed(), TakesEffect: row.InForce,
		Details: row.Details, Example: row.Example,
	}
	for _, one := range said {
		v := settingValue(k, one.Value, one.Origin)
		res.Candidates = append(res.Candidates, v)
		if one.Wins {
			res.Value = v
		}
	}
	return res, nil
}

func settingValue(k settings.Key, value string, o settings.Origin) *rdmadv1.SettingValue {
	return &rdmadv1.SettingValue{
		Key: k.String(), Value: value, Source: o.Source, Revision: o.Revision, Location: o.Detail,
	}
}

// toChange reads a request.
func toChange(req *rdmadv1.SetSettingsRequest) (settings.Change, error) {
	scope, err := settings.ParseScope(req.GetScope())
	if err != nil {
		return settings.Change{}, err
	}
	var unset settings.KeySet
	for _, name := range req.GetUnset() {
		k, ok := live.ParseKey(name)
		if !ok {
			return settings.Change{}, invalidField("unset", "there is no setting "+name)
		}
		unset = unset.With(k)
	}
	return settings.Change{
		Scope:    scope,
		Set:      settingsproto.Values(req.GetSettings()),
		Unset:    unset,
		Expected: req.ExpectedRevision,
	}, nil
}
