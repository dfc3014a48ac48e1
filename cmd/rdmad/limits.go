package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// CheckLimits implements manager.Bounds.
func (d *daemon) CheckLimits(l *spec.Limits) error { return d.places.mayLimit(l) }

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
