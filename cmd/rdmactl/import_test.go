package main

import (
	"context"
	"strings"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/manager"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// fakeImport answers by the first word of the file.
func fakeImport(_ context.Context, r *grpcapi.Import) (*grpcapi.Imported, error) {
	at := func(line int, key, msg string) *configfile.Error {
		return &configfile.Error{Origin: configfile.Origin{File: r.File, Line: line}, Key: key, Msg: msg}
	}
	word, _, _ := strings.Cut(string(r.Text), "\n")
	switch word {
	case "# mistakes":
		return nil, configfile.Errors{at(2, "listeners[0].service", `there is no service "x"`), at(7, "colour", "unknown key")}
	case "# taken":
		return nil, &grpcapi.NotNowError{Err: configfile.Errors{at(3, "listeners[0].address", "address 192.0.2.1:7 is in use")}}
	case "# same":
		return &grpcapi.Imported{Settings: desired.Result{Revision: 3, Unchanged: true}}, nil
	}
	var before, after settings.Values
	after.Set(live.CreditsMax, 32)
	return &grpcapi.Imported{
		Elements: []manager.ElementChange{
			{What: "service", Name: "up", Action: manager.Added},
			{What: "listener", Name: "lab", Action: manager.Replaced, Fields: []manager.FieldChange{{Field: "service", Before: "export", After: "up"}, {Field: "limits.idle", After: "8h"}}},
			{What: "connector", Name: "out", Action: manager.Removed},
		},
		Limits: []manager.FieldChange{{Field: "connections", Before: "9"}},
		Settings: desired.Result{
			Revision: 4, Effects: []desired.Effect{{ConnID: "1"}},
			Step: settings.Step{Deltas: []settings.Delta{{Before: settings.Layer{Values: before}, After: settings.Layer{Values: after}}}},
		},
		Kept: []string{"credits.weight of listener/nfs: rdmad.yaml:7 gives it"},
	}, nil
}
