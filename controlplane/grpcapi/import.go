package grpcapi

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/dataplane/manager"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// Importer puts a configuration file in force, completely or not at all. Errors are
// configfile.Errors with all mistakes, a *NotNowError, and those of a desired.Store and a
// manager.Manager.
type Importer func(context.Context, *Import) (*Imported, error)

// Import is a configuration file to put in force.
type Import struct {
	File    string // its name
	Text    []byte
	Drain   time.Duration // of connections of what is replaced and removed
	Options desired.Options
}

// Imported is what an import changed.
type Imported struct {
	Elements []manager.ElementChange
	Limits   []manager.FieldChange
	Settings desired.Result
	Kept     []string // settings that stay though the file does not have them
}

// NotNowError means that a file names things that are not available, for reasons that may go
// away.
type NotNowError struct{ Err configfile.Errors }

func (e *NotNowError) Error() string { return e.Err.Error() }

func (e *NotNowError) Unwrap() error { return e.Err }

// mistakesOf is the status of mistakes in a file.
func mistakesOf(err error) error {
	all, _ := errors.AsType[configfile.Errors](err)
	fields := make([]*errdetails.BadRequest_FieldViolation, 0, len(all))
	for _, one := range all {
		fields = append(fields, &errdetails.BadRequest_FieldViolation{Description: one.Error()})
	}
	if errors.As(err, new(*NotNowError)) {
		return violated(codes.FailedPrecondition, fields)
	}
	return badRequest(fields)
}

// ImportConfiguration implements rdmadv1.ConfigurationServiceServer.
func (s *configurationService) ImportConfiguration(ctx context.Context, req *rdmadv1.ImportConfigurationRequest) (*rdmadv1.ImportConfigurationResponse, error) {
	if s.importer == nil {
		return nil, status.Error(codes.Unimplemented, "this rdmad imports nothing")
	}
	done, err := s.importer(ctx, &Import{
		File: req.GetFile(), Text: []byte(req.GetText()), Drain: drainTime(req.GetDeadline()),
		Options: desired.Options{DryRun: req.GetDryRun(), Expected: req.ExpectedRevision, Actor: actor(ctx), Comment: req.GetComment()},
	})
	if err != nil {
		return nil, err
	}
	res := &rdmadv1.ImportConfigurationResponse{
		Revision: done.Settings.Revision, Settings: changes(&done.Settings.Step), Effects: effects(done.Settings.Effects), Kept: done.Kept,
		Elements: messages(done.Elements, elementChange),
	}
	if len(done.Limits) > 0 {
		res.Elements = append(res.Elements, &rdmadv1.ElementChange{Kind: "limits", Action: rdmadv1.ElementChange_CHANGED, Fields: messages(done.Limits, fieldChange)})
	}
	res.Unchanged = ifTrue(len(res.GetElements())+len(res.GetSettings()) == 0)
	if !req.GetDryRun() {
		before, after := done.texts()
		audit.Note(ctx, before, after, done.Settings.Revision)
	}
	return res, nil
}

func fieldChange(f *manager.FieldChange) *rdmadv1.FieldChange {
	return &rdmadv1.FieldChange{Field: f.Field, Before: f.Before, After: f.After}
}

func elementChange(e *manager.ElementChange) *rdmadv1.ElementChange {
	return &rdmadv1.ElementChange{
		Kind: e.What, Name: e.Name, Fields: messages(e.Fields, fieldChange),
		Action: rdmadv1.ElementChange_Action(rdmadv1.ElementChange_Action_value[strings.ToUpper(string(e.Action))]),
	}
}

// texts are for the audit log.
func (d *Imported) texts() (before, after string) {
	var was, is []string
	add := func(what string, action manager.Action, fields []manager.FieldChange) {
		if action != manager.Added {
			was = append(was, what)
		}
		if action != manager.Removed {
			is = append(is, what)
		}
		for _, f := range fields {
			was, is = append(was, f.Field+"="+f.Before), append(is, f.Field+"="+f.After)
		}
	}
	for _, one := range d.Elements {
		add(one.What+" "+one.Name, one.Action, one.Fields)
	}
	if len(d.Limits) > 0 {
		add("limits", manager.Changed, d.Limits)
	}
	if x, y := d.Settings.Step.Texts(); x+y != "" {
		was, is = append(was, x), append(is, y)
	}
	return strings.Join(was, " "), strings.Join(is, " ")
}
