package manager

import (
	"cmp"
	"slices"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// The start, a reload, an import and commands decide alike whether there is memory for the listeners: by
// their number after the change, and by the limit of the memory then. A change of other things is not
// refused when the memory has become too small, because a control group allows less.

// memoryOf returns the limit of the memory, in bytes.
func memoryOf(l *spec.Limits) int64 { return cmp.Or(int64(l.Memory), dataplane.DefaultMemory) }

// mayLower returns an error if other limits leave too little memory for the listeners. The caller holds op.
func (m *Manager) mayLower(before, now *spec.Limits) error {
	if memoryOf(now) >= memoryOf(before) {
		return nil
	}
	n, _ := m.newChange().listenersAfter()
	return m.cfg.Bounds.CheckMemory(now.Memory, n)
}

// mayListen reports a failure, and returns false, if there is too little memory for the listeners after the
// change. Otherwise it puts a higher limit in force if listeners are bound, so that they can have their
// part. discard takes that back.
func (c *Change) mayListen() bool {
	before, _ := boundsOf{c.m}.Get()
	_, now, err := c.limitsAfter()
	if err != nil {
		return true // Limits returns the error
	}
	n, more := c.listenersAfter()
	if more || memoryOf(&now) < memoryOf(&before) {
		if err := c.m.cfg.Bounds.CheckMemory(now.Memory, n); err != nil {
			c.fail("limits", "memory", err)
			return false
		}
	}
	binds := func(e *edit[spec.Listener]) bool { return !e.amend }
	if memoryOf(&now) > memoryOf(&before) && slices.ContainsFunc(c.listeners.edits, binds) {
		c.memory = c.m.cfg.Dataplane.Memory()
		c.m.cfg.Dataplane.SetMemory(memoryOf(&now))
	}
	return true
}

// memoryChanged reports whether operators changed the limit of the memory, and the change leaves it so.
func (c *Change) memoryChanged() bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	_, changed := c.m.limits.changed["memory"]
	return changed && (c.limits == nil || !c.imports)
}

// listenersAfter returns the number of listeners after the change, and whether there are new ones among
// them.
func (c *Change) listenersAfter() (n int, more bool) {
	p := c.listeners
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	isUp := func(t *thing[spec.Listener]) bool { return t != nil && t.running != nil && t.state == StateUp }
	for _, t := range p.things {
		if isUp(t) {
			n++
		}
	}
	for _, t := range p.gone {
		if isUp(t) {
			n--
		}
	}
	for _, e := range p.edits {
		if !isUp(e.old) && !e.wrong {
			n, more = n+1, true
		}
	}
	return n, more
}

// limitsAfter returns the limits of the file, and those in force after the change.
func (c *Change) limitsAfter() (file, now spec.Limits, err error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.limits
	switch {
	case c.limits != nil && c.imports:
		return l.file, *c.limits, nil
	case c.limits != nil:
		l = l.with(*c.limits)
	}
	now, err = l.over(&l.file)
	return l.file, now, err
}
