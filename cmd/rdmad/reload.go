package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/reload"
	"github.com/rdmad/rdmad/controlplane/configfile"
	model "github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// reload reloads the configuration file when it changes and on hangup, until stop is called. The
// channel that stop returns is closed when no reload is running any more.
func (d *daemon) reload(c *config.Config, load func() (*config.Config, error), drain time.Duration, hangup <-chan os.Signal) (stop func() <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	r := reload.New(reload.Config{
		Running:  c,
		Load:     load,
		Settings: d.control.Settings,
		Refused: func(err error) {
			d.control.RecordReload(c.File, err)
			if !errors.Is(err, dataplane.ErrShutdown) {
				d.health.refused(err)
			}
		},
		Applied: func(next *config.Config, waits []string) {
			d.control.RecordReload(next.File, nil)
			d.health.reloaded(next.File, waits)
		},
		Began: d.notify.Reloading,
		Ended: d.notify.Ready,
		Prepare: func(next *config.Config) (reload.Prepared, error) {
			p, err := d.prepare(ctx, next, drain)
			if err != nil && ctx.Err() != nil { // whatever it waited for is not to blame
				err = dataplane.ErrShutdown
			}
			return p, err
		},
		Waiting: d.fileWaits,
		Logger:  d.log,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, hangup)
	}()
	return func() <-chan struct{} {
		cancel()
		return done
	}
}

// prepared is a configuration with everything that it needs.
type prepared struct {
	d     *daemon
	next  *config.Config // of the file
	c     *config.Config // with the limits that operators changed
	file  spec.Limits
	drain time.Duration
	*manager.Prepared
	budget descriptors.Budget
	wait   func() // after Commit: waits until what was replaced is gone
}

// prepare binds, opens and loads everything that a new version of the file, which must be
// checked, needs. Whatever is in service stays as it is. The error is configfile.Errors with
// everything that can't be had, or a *reload.OutsideError with them if it may be had later.
func (d *daemon) prepare(ctx context.Context, c *config.Config, drain time.Duration) (*prepared, error) {
	o := opening{c: c, log: d.log}
	o.certificates()
	p, err := d.prepareWith(c, drain, func() (*manager.Prepared, error) { return d.manager.Prepare(ctx, &c.All, c.Limits) }, o.errs...)
	if err != nil {
		return nil, err
	}
	if gone := d.gone(c); len(gone) > 0 {
		p.Discard()
		return nil, gone
	}
	return p, nil
}

// gone returns the mistakes of a file that has settings for listeners which operators removed after it was loaded.
func (d *daemon) gone(c *config.Config) (errs configfile.Errors) {
	there := d.endpoints()
	for scope := range c.Scopes {
		if scope.Kind == model.Listener && !c.Listens(scope.Name) && !slices.Contains(there, scope.Name) {
			key := configfile.ScopesKey + "." + scope.String()
			errs = append(errs, &configfile.Error{Origin: c.Origins.Of(key), Key: key, Msg: fmt.Sprintf("there is no listener or connector %q", scope.Name)})
		}
	}
	return errs
}

// prepareWith is prepare with the manager's part given. wrong is what is known to be wrong.
func (d *daemon) prepareWith(c *config.Config, drain time.Duration, prepare func() (*manager.Prepared, error), wrong ...*configfile.Error) (*prepared, error) {
	p := &prepared{d: d, next: c, drain: drain}
	o := opening{c: c, log: d.log, errs: wrong}
	var err error
	p.Prepared, err = prepare()
	few := p.limits(c, err == nil)
	o.note("limits", few)
	outside := few == nil
	var failures manager.ChangeErrors
	switch {
	case errors.As(err, &failures):
		for _, one := range failures {
			o.errs = append(o.errs, blame(c, &one)...)
			outside = outside && one.Outside()
		}
	case err != nil:
		return nil, err
	case len(o.errs) > 0:
		p.Discard()
	}
	switch {
	case len(o.errs) == 0:
		return p, nil
	case outside:
		return nil, &reload.OutsideError{Err: o.errs}
	}
	return nil, o.errs
}

// limits finds the limits that will be in force, if everything else is prepared, and divides the
// descriptors for them.
func (p *prepared) limits(c *config.Config, ready bool) (err error) {
	next := *c
	p.c = &next
	if ready {
		if p.file, next.Limits, err = p.Limits(); err != nil {
			return err
		}
	}
	p.budget, err = divide(&next)
	return err
}

// blame returns the errors of an element, with the places in the file that cause them.
func blame(c *config.Config, f *manager.Failure) configfile.Errors {
	if f.What == "limits" {
		return memoryMistake(c, f.Err, f.Changed)
	}
	list := f.What + "s"
	i := slices.Index(c.Names(list), f.Name)
	if i < 0 {
		return configfile.Errors{{Origin: configfile.Origin{File: c.File}, Msg: f.Err.Error()}} // an operator added it
	}
	key := list + "[" + strconv.Itoa(i) + "]"
	if errors.As(f.Err, new(*manager.OpenError)) && !errors.As(f.Err, new(*noAnswerError)) && !errors.Is(f.Err, manager.ErrNotTried) && !f.Changed {
		if missing := missingExportsOf(c, i, readExport); len(missing) > 0 {
			return missing
		}
	}
	if field := f.Field(); field != "" {
		key += "." + field
	}
	reason := f.Reason()
	if f.Changed {
		reason += fmt.Sprintf(" (%ss update has changed it; rdmactl %ss unset %s takes that back)", f.What, f.What, f.Name)
	}
	at := c.Origins.Of(key)
	if at == (configfile.Origin{}) { // an import leaves it alone
		at.File, reason = c.File, f.What+" "+f.Name+": "+reason
	}
	return configfile.Errors{{Origin: at, Key: key, Msg: reason}}
}

// Commit implements reload.Prepared. It does not wait for the connections that drain.
func (p *prepared) Commit() {
	p.apply()
	p.d.data.SetSlowCall(p.c.SlowCall)
	p.d.config.Store(p.next) // from the next change on, what it needs stays
	p.wait = p.Prepared.Commit(p.drain)
	p.d.health.prober.Look()
}

// apply applies the limits.
func (p *prepared) apply() {
	p.d.places.configure(p.c, p.budget)
	p.d.ApplyLimits(&p.c.Limits, &p.file)
}
