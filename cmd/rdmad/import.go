package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/reload"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// importFile implements grpcapi.Importer. It goes the way of a reload: everything that the file
// needs is prepared, then stored with the settings at once, then put in service.
func (d *daemon) importFile(ctx context.Context, r *grpcapi.Import) (*grpcapi.Imported, error) {
	now := d.manager.Export()
	c, has, err := config.Import(r.File, r.Text, config.Options{
		Providers: providers.Names(), Absent: providers.Absent(),
		Stored: func(string) []string { return d.endpoints() },
	}, &config.InForce{Config: d.config.Load(), All: now.All, Limits: now.Limits})
	if err != nil {
		return nil, err
	}
	f := &imported{d: d, c: c, has: has}
	p, err := d.prepareWith(c, r.Drain, f.prepare(ctx))
	if err != nil {
		return nil, inOrder(f.withSettings(err, r.Options))
	}
	done := &grpcapi.Imported{Kept: f.kept()}
	done.Elements, done.Limits = p.Changes()
	if r.Options.DryRun {
		defer p.Discard()
		done.Settings, err = f.settings(r.Options)
		return done, f.blame(err)
	}
	_, err = p.CommitImport(r.Drain, func(all spec.All) error {
		o := r.Options
		if o.Elements, err = manager.Encode(all); err != nil {
			return err
		}
		if done.Settings, err = f.settings(o); err == nil {
			p.apply()
		}
		return err
	})
	if err != nil {
		return nil, f.blame(err)
	}
	d.health.prober.Look()
	d.log.Info("configuration imported", "file", r.File, "by", r.Options.Actor.Name, "from", r.Options.Actor.From)
	return done, nil
}

// endpoints returns the names of all listeners and connectors, even of those that failed, except those that are being
// removed.
func (d *daemon) endpoints() (names []string) {
	for _, l := range d.manager.Listeners.List() {
		if l.State != manager.StateDraining {
			names = append(names, l.Spec.Name)
		}
	}
	for _, c := range d.manager.Connectors.List() {
		if c.State != manager.StateDraining {
			names = append(names, c.Spec.Name)
		}
	}
	return names
}

// imported is a file that is being imported.
type imported struct {
	d   *daemon
	c   *config.Config
	has func(section string) bool
}

// prepare prepares the services, listeners, connectors and limits.
func (f *imported) prepare(ctx context.Context) func() (*manager.Prepared, error) {
	w := &manager.Wanted{}
	if f.has("services") {
		w.Services = append([]spec.Service{}, f.c.Services...)
	}
	if f.has("listeners") {
		w.Listeners = append([]spec.Listener{}, f.c.Listeners...)
	}
	if f.has("connectors") {
		w.Connectors = append([]spec.Connector{}, f.c.Connectors...)
	}
	if f.has("limits") {
		w.Limits = &f.c.Limits
	}
	return func() (*manager.Prepared, error) { return f.d.manager.PrepareImport(ctx, w) }
}

// settings puts the live settings in force.
func (f *imported) settings(o desired.Options) (desired.Result, error) {
	var values *live.Values
	if f.has(configfile.SettingsKey) {
		values = new(f.c.Settings.Values())
	}
	var scopes configfile.Scopes // nil without the section
	if f.has(configfile.ScopesKey) {
		scopes = make(configfile.Scopes)
		maps.Copy(scopes, f.c.Scopes)
	}
	return f.d.control.Settings.Import(values, scopes, o)
}

// withSettings adds what is wrong with the settings to why the rest can't be had.
func (f *imported) withSettings(err error, o desired.Options) error {
	mistakes, known := errors.AsType[configfile.Errors](err)
	if !known {
		return err
	}
	o.DryRun = true
	if _, wrong := f.settings(o); wrong != nil {
		if more, ok := errors.AsType[configfile.Errors](f.blame(wrong)); ok {
			return slices.Concat(mistakes, more)
		}
	}
	if errors.As(err, new(*reload.OutsideError)) {
		return &grpcapi.NotNowError{Err: mistakes}
	}
	return mistakes
}

// blame returns the lines of the file that conflict with each other or with settings that stay, or
// err.
func (f *imported) blame(err error) error {
	invalid, ok := errors.AsType[*settings.InvalidError](err)
	if !ok {
		return err
	}
	at := &settings.InvalidError{Violations: slices.Clone(invalid.Violations)}
	for i := range at.Violations {
		if v := &at.Violations[i]; v.Scope == "" {
			v.Scope = v.Set
		}
	}
	return inOrder(f.c.Blame(at))
}

// inOrder sorts mistakes by their lines.
func inOrder(err error) error {
	if all, ok := errors.AsType[configfile.Errors](err); ok {
		slices.SortStableFunc(all, func(a, b *configfile.Error) int { return a.Line - b.Line })
	}
	return err
}

// kept returns the settings of narrower scopes that stay because rdmad's own file gives them.
func (f *imported) kept() (lines []string) {
	if !f.has(configfile.ScopesKey) {
		return nil
	}
	given, own := f.c.Scopes, f.d.config.Load()
	for scope, v := range own.Scopes {
		there := given[scope]
		for _, k := range (v.Keys() &^ there.Keys()).Keys() {
			if scope.Kind == settings.Listener && !f.c.Listens(scope.Name) {
				continue
			}
			lines = append(lines, fmt.Sprintf("%s of %s: %s gives it", k, scope, own.SettingOrigin(scope, k)))
		}
	}
	slices.Sort(lines)
	return lines
}
