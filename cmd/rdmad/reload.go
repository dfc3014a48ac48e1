package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/reload"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// reload reloads the configuration file when it changes and on hangup, until stop is called.
// stop returns when no reload is running any more.
func (d *daemon) reload(c *config.Config, load func() (*config.Config, error), drain time.Duration, hangup <-chan os.Signal) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r := reload.New(reload.Config{
		Running:  c,
		Load:     load,
		Settings: d.control,
		Refused: func(err error) {
			d.control.RecordReload(c.File, err)
			d.health.refused(err)
		},
		Applied: func(next *config.Config) {
			d.control.RecordReload(next.File, nil)
			d.health.reloaded(next.File)
		},
		Began:   d.notify.Reloading,
		Ended:   d.notify.Ready,
		Prepare: func(next *config.Config) (reload.Prepared, error) { return d.prepare(ctx, next, drain) },
		Waiting: d.fileWaits,
		Logger:  d.log,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, hangup)
	}()
	return func() {
		cancel()
		<-done
	}
}

// prepared is a configuration with everything that it needs.
type prepared struct {
	d     *daemon
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
	p := &prepared{d: d, drain: drain}
	o := opening{c: c, log: d.log}
	o.certificates()
	var err error
	p.Prepared, err = d.manager.Prepare(ctx, &c.All)
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

// limits adds the limits that operators changed to those of the file, if everything else is
// prepared, and divides the descriptors for them.
func (p *prepared) limits(c *config.Config, ready bool) (err error) {
	next := *c
	p.c, p.file = &next, c.Limits
	if ready {
		if next.Limits, err = p.Limits(c.Limits); err != nil {
			return err
		}
	}
	p.budget, err = divide(&next)
	return err
}

// blame returns the errors of an element, with the places in the file that cause them.
func blame(c *config.Config, f *manager.Failure) configfile.Errors {
	list := f.What + "s"
	i := slices.Index(names(c, list), f.Name)
	if i < 0 {
		return configfile.Errors{{Origin: configfile.Origin{File: c.File}, Msg: f.Err.Error()}} // an operator added it
	}
	key := list + "[" + strconv.Itoa(i) + "]"
	if errors.As(f.Err, new(*manager.OpenError)) && !f.Changed {
		if missing := slices.DeleteFunc(missingExports(c, nil), func(e *configfile.Error) bool { return !strings.HasPrefix(e.Key, key) }); len(missing) > 0 {
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
	return configfile.Errors{{Origin: c.Origins.Of(key), Key: key, Msg: reason}}
}

// names returns the names of the elements of a list of the file.
func names(c *config.Config, list string) (out []string) {
	switch list {
	case "services":
		for i := range c.Services {
			out = append(out, c.Services[i].Name)
		}
	case "listeners":
		for i := range c.Listeners {
			out = append(out, c.Listeners[i].Name)
		}
	case "connectors":
		for i := range c.Connectors {
			out = append(out, c.Connectors[i].Name)
		}
	}
	return out
}

// Commit implements reload.Prepared. It does not wait for the connections that drain.
func (p *prepared) Commit() {
	d, c := p.d, p.c
	d.places.configure(c, p.budget)
	bounds{d}.ApplyLimits(&c.Limits, &p.file)
	d.data.SetSlowCall(c.SlowCall)
	p.wait = p.Prepared.Commit(p.drain)
	d.health.prober.Look()
}
