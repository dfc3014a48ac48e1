package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// CheckLimits implements manager.Bounds.
func (d *daemon) CheckLimits(l *spec.Limits) error { return d.places.mayLimit(l) }

// CheckMemory implements manager.Bounds.
func (d *daemon) CheckMemory(limit spec.Size, listeners int) error {
	return checkListeners(listeners, new(d.memory.Would(int64(limit))))
}

// checkListeners returns a *dataplane.NoMemoryError if a limit of the memory is too small for a number of
// listeners.
func checkListeners(n int, limit *procmem.Limit) error {
	err := dataplane.CheckListeners(n, limit.Registered())
	if none, few := errors.AsType[*dataplane.NoMemoryError](err); few && limit.Lowered() {
		none.From = limit.Group.String()
	}
	return err
}

// memoryMistake returns the mistake that an error of the memory is, or nil without one. changed means that
// operators have changed the limit.
func memoryMistake(c *config.Config, err error, changed bool) configfile.Errors {
	if err == nil {
		return nil
	}
	const key = "limits.memory"
	at, text := c.Origins.Of(key), err.Error()
	if none, few := errors.AsType[*dataplane.NoMemoryError](err); changed && few && none.From == "" {
		at = configfile.Origin{}
		text += " (rdmactl limits set has changed it; with fewer listeners, rdmactl limits unset max-memory takes that back)"
	}
	if at == (configfile.Origin{}) {
		at.File = c.File
	}
	return configfile.Errors{{Origin: at, Key: key, Msg: text}}
}

// listening returns the number of the file's listeners that come into service at a start: without those
// that an import took out of service, or that are not valid as operators changed them.
func listening(c *config.Config, changed *spec.Changes) (n int) {
	for _, l := range c.Listeners {
		err := changed.Listeners[l.Name].Apply(&l)
		if err == nil {
			err = spec.Check(&l)
		}
		if err == nil && !slices.Contains(changed.Removed.Listeners, l.Name) {
			n++
		}
	}
	return n
}

// ApplyLimits implements manager.Bounds.
func (d *daemon) ApplyLimits(l, file *spec.Limits) {
	d.memory.Configured(int64(file.Memory))
	d.data.SetLimits(l.Limits)
	d.data.SetMemory(int64(l.Memory))
	d.data.SetTCPLimits(l.TCP())
	d.places.limit(l)
}

// storedChanges returns what operators changed of the file's elements and limits before the
// last stop.
func storedChanges(path string) (spec.Changes, error) {
	saved, err := (&state{path: path}).added()
	if errors.As(err, new(*fs.PathError)) {
		return spec.Changes{}, nil // opening the state directory, or restoring, reports it
	}
	if err != nil {
		return spec.Changes{}, fmt.Errorf("services and listeners added before: %w", err)
	}
	return saved.Changed, nil
}

// withLimits returns a configuration with the limits that operators changed and that are valid,
// and these changes. manager.New reports the others.
func withLimits(c *config.Config, changed spec.Delta) (*config.Config, spec.Delta, error) {
	out := *c
	limits, valid, _, err := c.Limits.Over(changed)
	if out.Limits = limits; err != nil {
		return nil, nil, fmt.Errorf("limits set before: %w; correct the file, or move %s away to start without what was changed", err, (&state{path: c.State.Path}).listeners())
	}
	return &out, valid, nil
}
