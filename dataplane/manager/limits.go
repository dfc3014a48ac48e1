package manager

import (
	"context"
	"maps"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// LimitsSet has the limits of all listeners together, of services on TCP, of rdmad's own ports
// and of the memory.
type LimitsSet interface {
	// Get returns the limits of the file with the changes of operators, and the changed fields.
	Get() (l spec.Limits, changed []string)
	// Set changes limits and stores them for the next start. They override later versions of
	// the file. Before that, the fields that unset selects get the file's values back. On an
	// error it changes nothing. ctx bounds the wait for other changes.
	Set(ctx context.Context, change func(*spec.Limits), unset func(*spec.Field) bool) (before, now spec.Limits, err error)
}

// Bounds applies limits.
type Bounds interface {
	// CheckLimits returns why limits that are in range can't be applied, or nil. Then ApplyLimits can't fail.
	CheckLimits(l *spec.Limits) error
	// CheckMemory returns a *dataplane.NoMemoryError if a number of listeners need more
	// registered memory than a limit of the memory gives; 0 is the default limit.
	CheckMemory(limit spec.Size, listeners int) error
	// ApplyLimits applies them. file are the file's limits.
	ApplyLimits(l, file *spec.Limits)
}

// limits are the file's limits and what operators changed of them; under Manager.mu.
type limits struct {
	file    spec.Limits
	changed spec.Delta
	// left is what operators changed before the start and what is not in force, because it is
	// out of range or does not go with the file. It stays stored until limits change, and is in
	// force once it goes with a version of the file.
	left    spec.Delta
	trouble error // why
}

// newLimits returns the limits of a start.
func newLimits(file spec.Limits, changed spec.Delta) limits {
	_, part, trouble, _ := file.Over(changed) // the caller has refused a damaged delta
	left := maps.Clone(changed)
	maps.DeleteFunc(left, func(field string, _ any) bool { _, in := part[field]; return in })
	if len(part) == 0 {
		part = nil
	}
	return limits{file: file, changed: part, left: left, trouble: trouble}
}

// with returns the limits with another version of the file. Changes of operators that are in force
// stay in force. If they do not go with the file, the caller gets the error from over.
func (l *limits) with(file spec.Limits) limits {
	if len(l.left) == 0 {
		return limits{file: file, changed: l.changed}
	}
	all := newLimits(file, l.kept())
	for field := range l.changed {
		if _, in := all.changed[field]; !in {
			all.changed, all.left = l.changed, l.left
			break
		}
	}
	return all
}

// kept returns what is to be stored. The caller holds Manager.mu.
func (l *limits) kept() spec.Delta {
	if len(l.left) == 0 {
		return l.changed
	}
	all := maps.Clone(l.left)
	maps.Copy(all, l.changed)
	return all
}

// LimitsTrouble returns why limits that operators set before the start are not in force, or nil.
func (m *Manager) LimitsTrouble() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limits.trouble
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
func (b boundsOf) Set(ctx context.Context, change func(*spec.Limits), unset func(*spec.Field) bool) (before, now spec.Limits, err error) {
	m := b.m
	if err := m.begin(ctx); err != nil {
		return before, now, err
	}
	defer m.op.Unlock()
	before, _ = b.Get()
	now = before
	if unset != nil {
		spec.Copy(&now, &m.limits.file, unset)
	}
	change(&now)
	if err := now.Check(); err != nil {
		return before, now, err
	}
	if err := m.cfg.Bounds.CheckLimits(&now); err != nil {
		return before, now, err
	}
	if err := m.mayLower(&before, &now); err != nil {
		return before, now, err
	}
	c := m.newChange()
	c.limits, c.imports = &now, true
	if err := c.commit(m.save); err != nil {
		return before, now, err
	}
	m.cfg.Bounds.ApplyLimits(&now, &m.limits.file)
	return before, now, nil
}

// changeLocked makes the limits those that an operator wants.
func (l *limits) changeLocked(want *spec.Limits) {
	d := spec.Difference(&l.file, want)
	if len(d) == 0 {
		d = nil
	}
	*l = limits{file: l.file, changed: d}
}
