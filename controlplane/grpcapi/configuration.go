package grpcapi

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// configurationService implements rdmad.v1.ConfigurationService.
type configurationService struct {
	rdmadv1.UnimplementedConfigurationServiceServer
	manager  manager.API
	store    *desired.Store
	importer Importer // nil refuses all
}

// fileFormats are the formats of files by their number in the API.
var fileFormats = []string{
	rdmadv1.ExportConfigurationRequest_FORMAT_UNSPECIFIED: configfile.YAML,
	rdmadv1.ExportConfigurationRequest_YAML:               configfile.YAML,
	rdmadv1.ExportConfigurationRequest_TOML:               configfile.TOML,
	rdmadv1.ExportConfigurationRequest_JSON:               configfile.JSON,
}

// ExportConfiguration implements rdmadv1.ConfigurationServiceServer.
func (s *configurationService) ExportConfiguration(_ context.Context, req *rdmadv1.ExportConfigurationRequest) (*rdmadv1.ExportConfigurationResponse, error) {
	all := s.manager.Export()
	if len(all.Services)+len(all.Listeners)+len(all.Connectors) == 0 {
		return nil, status.Error(codes.FailedPrecondition,
			"rdmad serves nothing, and a configuration file without services, listeners and connectors stands for the default ones; ExportSettings has the settings")
	}
	d := s.store.Dump()
	c := configfile.InForce(&d)
	left := append(all.LeftOut, withoutListener(c, &all.All)...)
	text, err := c.WriteAll(fileFormats[req.GetFormat()], &all.All, &all.Limits)
	if err != nil {
		return nil, err
	}
	return &rdmadv1.ExportConfigurationResponse{Text: string(text), Revision: d.Revision, LeftOut: left}, nil
}

// withoutListener takes away the scopes of listeners and connectors that do not exist, which a
// configuration file can't have.
func withoutListener(c *configfile.Contents, all *spec.All) (left []string) {
	maps.DeleteFunc(c.Scopes, func(scope settings.Scope, _ settings.Values) bool {
		gone := scope.Kind == settings.Listener &&
			!slices.ContainsFunc(all.Listeners, func(l spec.Listener) bool { return l.Name == scope.Name }) &&
			!slices.ContainsFunc(all.Connectors, func(n spec.Connector) bool { return n.Name == scope.Name })
		if gone {
			left = append(left, "settings of "+scope.String()+": there is no such listener or connector in service")
		}
		return gone
	})
	slices.Sort(left)
	return left
}
