package grpcapi

import (
	"context"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
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
		return nil, toStatus(err)
	}
	view, err := s.store.Get(scope)
	if err != nil {
		return nil, toStatus(err)
	}
	shown, err := choose(&view.Values, req.GetKeys())
	if err != nil {
		return nil, toStatus(err)
	}
	res := &rdmadv1.GetSettingsResponse{
		Revision: view.Revision,
		Scope:    scope.String(),
		Settings: toProto(&shown),
	}
	for _, k := range shown.Keys().Keys() {
		res.Values = append(res.Values, &rdmadv1.SettingValue{
			Key:      k.String(),
			Value:    shown.Format(k),
			Source:   view.Origins[k].Source,
			Revision: view.Origins[k].Revision,
		})
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
		keys := settings.Match(name)
		switch {
		case keys == 0:
			return settings.Values{}, noSetting("keys", name)
		case keys&v.Keys() == 0:
			return settings.Values{}, &settings.UnavailableError{Key: name, Reason: keys.Keys()[0].Missing()}
		}
		wanted |= keys
	}
	return v.Only(wanted), nil
}

func noSetting(field, name string) error {
	return &settings.InvalidError{Violations: []settings.Violation{{Field: field, Text: "there is no setting " + name}}}
}

// SetSettings implements rdmadv1.SettingsServiceServer.
func (s *settingsService) SetSettings(_ context.Context, req *rdmadv1.SetSettingsRequest) (*rdmadv1.SetSettingsResponse, error) {
	change, err := toChange(req)
	if err != nil {
		return nil, toStatus(err)
	}
	result, err := s.store.Set(change, desired.Options{DryRun: req.GetDryRun()})
	if err != nil {
		return nil, toStatus(err)
	}
	res := &rdmadv1.SetSettingsResponse{Revision: result.Revision}
	for _, e := range result.Effects {
		res.Effects = append(res.Effects, &rdmadv1.Effect{
			ConnectionId: e.ConnID,
			Outcome:      outcomes[e.Outcome],
			Reason:       e.Reason,
		})
	}
	return res, nil
}

var outcomes = [...]rdmadv1.Effect_Outcome{
	dataplane.Applied:          rdmadv1.Effect_APPLIED,
	dataplane.PendingReconnect: rdmadv1.Effect_PENDING_RECONNECT,
	dataplane.Unsupported:      rdmadv1.Effect_UNSUPPORTED,
}

// toChange reads a request, whole: a change that a newer client wants and
// this rdmad doesn't know is refused rather than half made.
func toChange(req *rdmadv1.SetSettingsRequest) (settings.Change, error) {
	if name := unknownField(req.ProtoReflect()); name != "" {
		return settings.Change{}, &settings.InvalidError{Violations: []settings.Violation{{
			Field: name, Text: "holds something that this rdmad doesn't know; is the client newer?",
		}}}
	}
	scope, err := settings.ParseScope(req.GetScope())
	if err != nil {
		return settings.Change{}, err
	}
	var unset settings.KeySet
	for _, name := range req.GetUnset() {
		k, ok := settings.ParseKey(name)
		if !ok {
			return settings.Change{}, noSetting("unset", name)
		}
		unset = unset.With(k)
	}
	return settings.Change{
		Scope:    scope,
		Set:      fromProto(req.GetSettings()),
		Unset:    unset,
		Expected: req.ExpectedRevision,
	}, nil
}
