package manager

import (
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// LimitsSet has the limits of all listeners together, of services on TCP, of rdmad's own ports
// and of the memory.
type LimitsSet interface {
	// Get returns the limits of the file with those that operators changed, and the fields of
	// the latter.
	Get() (l spec.Limits, changed []string)
	// Set changes limits. It keeps them for the next start. They stand over later versions of
	// the file. First, the fields that unset selects get the file's values back. On an error it
	// changes nothing.
	Set(change func(*spec.Limits), unset func(*spec.Field) bool) error
}

// Bounds applies limits.
type Bounds interface {
	// CheckLimits returns why limits that are in range can't be applied, or nil. Then ApplyLimits can't fail.
	CheckLimits(l *spec.Limits) error
	// ApplyLimits applies them. file are the file's limits.
	ApplyLimits(l, file *spec.Limits)
}

// limits are the file's limits and what operators changed of them; under Manager.mu.
type limits struct {
	file    spec.Limits
	changed spec.Delta
}

// over returns limits of the file with what operators changed. The caller holds op.
func (l *limits) over(file *spec.Limits) (spec.Limits, error) {
	out := *file
	if err := l.changed.Apply(&out); err != nil {
		return out, err
	}
	return out, out.Check()
}

// boundsOf implements LimitsSet.
type boundsOf struct{ m *Manager }

// Get implements LimitsSet.
func (b boundsOf) Get() (l spec.Limits, changed []string) {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	l, _ = b.m.limits.over(&b.m.limits.file) // the start would have failed
	return l, sortedKeys(b.m.limits.changed)
}

// Set implements LimitsSet.
func (b boundsOf) Set(change func(*spec.Limits), unset func(*spec.Field) bool) error {
	m := b.m
	m.op.Lock()
	defer m.op.Unlock()
	if m.closed {
		return dataplane.ErrShutdown
	}
	now, _ := b.Get()
	if unset != nil {
		spec.Copy(&now, &m.limits.file, unset)
	}
	change(&now)
	if err := now.Check(); err != nil {
		return err
	}
	if err := m.cfg.Bounds.CheckLimits(&now); err != nil {
		return err
	}
	before := m.limits.changed
	m.setChangedLimits(spec.Difference(&m.limits.file, &now))
	if err := m.save(); err != nil {
		m.setChangedLimits(before)
		return err
	}
	m.cfg.Bounds.ApplyLimits(&now, &m.limits.file)
	return nil
}

func (m *Manager) setChangedLimits(d spec.Delta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limits.changed = d; len(d) == 0 {
		m.limits.changed = nil
	}
}
