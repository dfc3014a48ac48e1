package manager

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// part is what a change does to one set.
type part[S spec.Named, L any] struct {
	*set[S, L]
	c     *Change
	edits []*edit[S]
	gone  []*thing[S] // removed

	ends     map[*thing[S]]dataplane.Removed // result of drain; under Manager.mu
	imported []S                             // the list of an import; nil without one
	absent   []string                        // elements of the file that imports took out of service

	// After listLocked:
	were           []was[S]
	thingsBefore   map[string]*thing[S]
	shadowedBefore []S
	changedBefore  map[string]spec.Delta
	removedBefore  []string
}

// edit makes or changes one element.
type edit[S spec.Named] struct {
	want   S
	origin Origin
	old    *thing[S] // has the name; nil if no element has
	amend  bool      // old stays, with other limits or access
	change bool      // an operator changes an element of the file
	wrong  bool      // reported already
	pin    bool      // keep the port that the system chooses
	fresh  *thing[S] // prepared
}

// was is an element before the change.
type was[S spec.Named] struct {
	*thing[S]
	spec  S
	state string
}

func newPart[S spec.Named, L any](c *Change, s *set[S, L]) *part[S, L] {
	return &part[S, L]{set: s, c: c, ends: make(map[*thing[S]]dataplane.Removed)}
}

// add adds an element, or replaces the one of its name.
func (p *part[S, L]) add(want S, origin Origin, old *thing[S]) *edit[S] {
	e := &edit[S]{want: want, origin: origin, old: old}
	p.edits = append(p.edits, e)
	return e
}

// turn makes old what want says, in place if that is possible and anew is false.
func (p *part[S, L]) turn(old *thing[S], want S, anew bool) *edit[S] {
	e := p.add(want, old.origin, old)
	e.amend = !anew && old.running != nil && p.sameBinding(&old.spec, &want)
	return e
}

// leavers returns the running elements that are replaced or removed.
func (p *part[S, L]) leavers() []*thing[S] {
	out := slices.Clone(p.gone)
	for _, e := range p.edits {
		if e.old != nil && !e.amend {
			out = append(out, e.old)
		}
	}
	return slices.DeleteFunc(out, func(t *thing[S]) bool { return t.running == nil })
}

func (p *part[S, L]) replaces(name string) bool {
	return slices.ContainsFunc(p.edits, func(e *edit[S]) bool { return e.want.Called() == name && e.old != nil && !e.amend })
}

// adds reports whether there will be an element of a name, anew or changed.
func (p *part[S, L]) adds(name string) bool {
	return slices.ContainsFunc(p.edits, func(e *edit[S]) bool { return e.want.Called() == name })
}

// concerns reports whether the change replaces, changes or removes an element.
func (p *part[S, L]) concerns(t *thing[S]) bool {
	return slices.Contains(p.gone, t) || slices.ContainsFunc(p.edits, func(e *edit[S]) bool { return e.old == t })
}

func (p *part[S, L]) socketsLocked() (out []net.Listener) {
	for _, t := range p.leavers() {
		if t.state == StateUp {
			out = append(out, t.running.Sockets()...)
		}
	}
	return out
}

func (p *part[S, L]) bind(ctx context.Context) {
	for _, t := range p.gone {
		if err := p.mayGo(t.spec.Called(), p.c); err != nil {
			p.c.fail(p.what, t.spec.Called(), err)
		}
	}
	for _, replaces := range []bool{true, false} { // a successor has the first right to the address
		for _, e := range p.edits {
			if replaces != (e.old != nil) {
				continue
			}
			if p.c.late(ctx) && !e.amend {
				continue
			}
			over := ctx.Err() != nil
			if err := p.bindOne(ctx, e); err != nil {
				p.c.fail(p.what, e.want.Called(), blamed(ctx, over, err))
			}
		}
	}
}

func (p *part[S, L]) bindOne(ctx context.Context, e *edit[S]) error {
	if e.wrong {
		return nil
	}
	if e.amend {
		return p.mayAmend(&e.want)
	}
	r, err := p.make(ctx, &e.want, p.c)
	if r != nil {
		e.fresh = &thing[S]{spec: e.want, origin: e.origin, state: StateUp, running: r, gone: make(chan struct{})}
	}
	return err
}

func (p *part[S, L]) open(ctx context.Context) {
	for _, e := range p.edits {
		if e.fresh == nil || p.c.late(ctx) {
			continue
		}
		over := ctx.Err() != nil
		if err := e.fresh.running.Open(ctx); err != nil {
			p.c.fail(p.what, e.want.Called(), blamed(ctx, over, &OpenError{What: p.what, Name: e.want.Called(), Err: err}))
		}
	}
}

// listLocked lists the elements as they will be. With forget, removed elements do not come
// back when the configuration file no longer has their names.
func (p *part[S, L]) listLocked(forget bool) {
	s := p.set
	p.thingsBefore, p.shadowedBefore, p.changedBefore, p.removedBefore = maps.Clone(s.things), s.shadowed, maps.Clone(s.changed), s.removed
	for _, e := range p.edits {
		if e.change {
			s.noteChangeLocked(&e.want)
		}
		if e.old != nil {
			p.were = append(p.were, was[S]{e.old, e.old.spec, e.old.state})
		}
		if e.amend {
			e.old.spec = e.want
			continue
		}
		if e.origin == FromOperator {
			if e.pin {
				e.fresh.running.pin(&e.fresh.spec)
			}
			delete(s.changed, e.want.Called())
		} else if e.old != nil && e.old.origin == FromOperator && e.old.state != StateDraining {
			s.shadowed = append(without(s.shadowed, e.want.Called()), e.old.spec)
		}
		if e.old != nil && e.old.running != nil {
			e.old.state = StateDraining
			if !e.old.ended() { // else nothing would forget it any more
				s.leaving[e.old] = struct{}{}
			}
		}
		s.things[e.want.Called()] = e.fresh
	}
	for _, t := range p.gone {
		p.were = append(p.were, was[S]{t, t.spec, t.state})
		t.state = StateDraining
		if forget {
			s.shadowed = without(s.shadowed, t.spec.Called())
			delete(s.changed, t.spec.Called())
		}
	}
	if p.imported != nil {
		p.replaceStoredLocked()
	}
}

// unlistLocked undoes listLocked.
func (p *part[S, L]) unlistLocked() {
	p.things, p.shadowed, p.changed, p.removed = p.thingsBefore, p.shadowedBefore, p.changedBefore, p.removedBefore
	for _, w := range p.were {
		w.thing.spec, w.thing.state = w.spec, w.state
		delete(p.leaving, w.thing)
	}
	p.were = nil
}

// giveUp lists the element that failed as failed, if it may be missing at the start.
func (p *part[S, L]) giveUp(f *Failure) bool {
	i := slices.IndexFunc(p.edits, func(e *edit[S]) bool { return e.want.Called() == f.Name })
	if f.What != p.what || i < 0 || !f.Changed && !p.m.lacksService(f.Err) {
		return false
	}
	p.fail(p.edits[i].want, FromFile, f.Err)
	return true
}

// lacksService reports whether an error is that a service is missing which failed, or which an
// import took out of service.
func (m *Manager) lacksService(err error) bool {
	lacks, ok := errors.AsType[*NotFoundError](err)
	if !ok || lacks.What != m.services.what {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.services.things[lacks.Name] != nil || slices.Contains(m.services.removed, lacks.Name)
}

// isChanged reports whether the element that failed is one of the file that operators changed.
func (p *part[S, L]) isChanged(f *Failure) bool {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.what == f.What && p.changed[f.Name] != nil && p.c.file != nil
}

// enter puts the listed elements in service.
func (p *part[S, L]) enter() {
	for _, e := range p.edits {
		if e.amend {
			_ = e.old.running.update(&e.want) // mayAmend has checked it
			continue
		}
		if e.old != nil && e.old.origin != e.origin && !p.c.imports {
			p.logShadowed(e.want.Called())
		}
		e.fresh.running.Enter()
		if p.m.started {
			e.fresh.running.Start()
		}
	}
}

func (p *part[S, L]) discard() {
	for _, e := range p.edits {
		if e.fresh != nil {
			e.fresh.running.close()
			e.fresh = nil
		}
	}
}

// drain drains the elements that leave, each in a goroutine of all.
func (p *part[S, L]) drain(ctx context.Context, all *sync.WaitGroup) {
	for _, t := range p.leavers() {
		all.Go(func() {
			removed, err := t.running.drain(ctx)
			if err != nil {
				p.m.log.Warn("removed with calls unfinished", p.what, t.spec.Called(), "error", err)
			}
			p.m.mu.Lock()
			defer p.m.mu.Unlock()
			p.ends[t] = removed
		})
	}
}

// free frees the elements that left. Those that were being removed before the change are freed
// by their remover.
func (p *part[S, L]) free() {
	for _, w := range p.were {
		switch {
		case p.stays(w.thing):
		case w.state == StateDraining:
			<-w.gone
		default:
			p.end(w.thing)
			if slices.Contains(p.gone, w.thing) {
				p.logRemoved(w.spec.Called(), p.ends[w.thing])
			}
		}
	}
}

// stays reports whether an element is up after the change.
func (p *part[S, L]) stays(t *thing[S]) bool {
	return slices.ContainsFunc(p.edits, func(e *edit[S]) bool { return e.old == t && e.amend })
}
