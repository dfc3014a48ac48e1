package manager

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// Wanted has the services, listeners and connectors after an import. A list that is nil leaves
// its elements alone.
type Wanted struct {
	spec.All
	Limits *spec.Limits // in place of those in force; nil leaves them alone
}

// PrepareImport is Prepare for a list that overrides the configuration file, now and at later
// starts: the differences from the file are stored like the changes of operators. Listeners of
// a replaced service are replaced, even if they are left alone otherwise. Commit it with
// CommitImport.
func (m *Manager) PrepareImport(ctx context.Context, w *Wanted) (*Prepared, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	c := m.toImport(w)
	if err := c.prepare(ctx); err != nil {
		m.op.Unlock()
		return nil, err
	}
	return &Prepared{c}, nil
}

// CommitImport is Commit for an import. store stores all that operators added and changed,
// durably. If it fails, everything is discarded. The Manager's own store gets a copy.
func (p *Prepared) CommitImport(drain time.Duration, store func(spec.All) error) (wait func(), err error) {
	m := p.c.m
	defer m.op.Unlock()
	err = p.c.commit(func(all spec.All) error {
		all.Imports++
		return store(all)
	})
	if err != nil {
		return nil, err
	}
	m.imports++
	if err := m.save(m.kept()); err != nil { // the next start takes what store stored
		m.log.Warn("the import is not in its usual place yet", "error", err)
	}
	return p.retire(drain), nil
}

// toImport returns the change that an import needs. The caller holds op.
func (m *Manager) toImport(w *Wanted) *Change {
	c := m.newChange()
	c.imports, c.limits = true, w.Limits
	m.mu.Lock()
	c.services.toImportLocked(w.Services, func(*spec.Service) bool { return false }, isChangeOf)
	// At the start, the listeners of the file are made before the services of operators.
	c.listeners.toImportLocked(w.Listeners, func(l *spec.Listener) bool { return c.services.replaces(l.Service) },
		func(base, l *spec.Listener) bool {
			return c.services.originLocked(l.Service) == FromFile && isChangeOf(base, l)
		})
	c.connectors.toImportLocked(w.Connectors, func(*spec.Connector) bool { return false }, isChangeOf)
	m.mu.Unlock()
	c.follow()
	return c
}

// toImportLocked compares the current elements with a list. Elements that anew selects are
// replaced in any case. ofFile reports whether an element can be stored as a change of the one in
// the file.
func (p *part[S, L]) toImportLocked(want []S, anew func(*S) bool, ofFile func(base, want *S) bool) {
	if want == nil {
		return
	}
	p.imported = make([]S, 0, len(want))
	for _, one := range want {
		forEmpty(&one)
		p.imported = append(p.imported, one)
		base, origin := p.base(one.Called()), FromOperator
		if base != nil && ofFile(base, &one) {
			origin = FromFile
		}
		t := p.things[one.Called()]
		var e *edit[S]
		switch {
		case t == nil || t.state != StateUp || t.origin != origin:
			e = p.add(one, origin, t)
		case anew(&one) || !reflect.DeepEqual(t.spec, one):
			e = p.turn(t, one, anew(&one))
		default:
			continue
		}
		e.change = origin == FromFile
		if err := p.checked(&one, base); err != nil {
			e.wrong = true
			p.c.fail(p.what, one.Called(), err)
		}
	}
	for _, name := range sortedKeys(p.things) {
		if t := p.things[name]; t.state != StateDraining && !slices.ContainsFunc(want, func(o S) bool { return o.Called() == name }) {
			p.gone = append(p.gone, t)
		}
	}
}

// originLocked returns the origin that an element has after the change.
func (p *part[S, L]) originLocked(name string) Origin {
	for _, e := range p.edits {
		if e.want.Called() == name {
			return e.origin
		}
	}
	if t := p.things[name]; t != nil {
		return t.origin
	}
	return FromFile
}

// isChangeOf reports whether a delta can make another element of one of the file.
func isChangeOf[S spec.Named](base, want *S) bool {
	now := copied(*base)
	if spec.Difference(base, want).Apply(&now) != nil {
		return false
	}
	forEmpty(&now)
	return reflect.DeepEqual(&now, want)
}

// replaceStoredLocked makes what is kept of the list that of an import.
func (p *part[S, L]) replaceStoredLocked() {
	s := p.set
	ofFile := func(name string) bool {
		t := s.things[name]
		return t != nil && t.origin == FromFile && t.state != StateDraining
	}
	s.shadowed, s.removed = nil, nil
	for name := range s.changed {
		if !ofFile(name) {
			delete(s.changed, name)
		}
	}
	if s.m.file == nil {
		return
	}
	for _, one := range *s.list(s.m.file) {
		if !ofFile(one.Called()) {
			s.removed = append(s.removed, one.Called())
		}
	}
	slices.Sort(s.removed)
}

// withoutRemovedLocked returns the elements of the file that no import took out of service.
func (p *part[S, L]) withoutRemovedLocked(file []S) (out []S) {
	for _, one := range file {
		if slices.Contains(p.removed, one.Called()) {
			p.absent = append(p.absent, one.Called())
		} else {
			out = append(out, one)
		}
	}
	return out
}

// logAbsent names the elements of the file that an import took out of service.
func (p *part[S, L]) logAbsent() {
	if len(p.absent) > 0 {
		p.m.log.Warn("the configuration file has what an import took out of service; an import that names it brings it back", p.what, strings.Join(p.absent, ", "))
	}
}

// Action is the effect of a change on an element.
type Action string

// The actions.
const (
	Added   Action = "added"
	Changed Action = "changed" // its connections stay
	// Replaced elements are bound anew. Their connections are drained.
	Replaced Action = "replaced"
	Removed  Action = "removed" // its connections are drained
)

// ElementChange is the effect of a change on one element.
type ElementChange struct {
	What, Name string
	Action     Action
	Fields     []FieldChange // those that differ
}

// FieldChange is a field that changes, with texts as in the configuration file; "" means not
// given.
type FieldChange struct{ Field, Before, After string }

// Changes returns what the commit changes: services, listeners, connectors, each by name, and
// limits.
func (p *Prepared) Changes() (all []ElementChange, limits []FieldChange) {
	for _, piece := range p.c.pieces() {
		all = append(all, piece.changes()...)
	}
	if p.c.limits != nil {
		now, _ := boundsOf{p.c.m}.Get()
		limits = fieldChanges(&now, p.c.limits)
	}
	return all, limits
}

func (p *part[S, L]) changes() (all []ElementChange) {
	for _, e := range p.edits {
		one := ElementChange{What: p.what, Name: e.want.Called(), Action: Added}
		if e.old != nil && e.old.state == StateUp {
			one.Action, one.Fields = Replaced, fieldChanges(&e.old.spec, &e.want)
			if e.amend {
				one.Action = Changed
			}
		}
		all = append(all, one)
	}
	for _, t := range p.gone {
		all = append(all, ElementChange{What: p.what, Name: t.spec.Called(), Action: Removed})
	}
	slices.SortStableFunc(all, func(a, b ElementChange) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// fieldChanges compares two specifications of the same type.
func fieldChanges(from, to any) (all []FieldChange) {
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	for f := range spec.Fields(a.Type().Elem()) {
		x, y := f.In(a, false), f.In(b, false)
		switch {
		case f.Section():
			if x.IsValid() && y.IsValid() && x.IsNil() != y.IsNil() {
				one := FieldChange{Field: f.Path}
				if x.IsNil() {
					one.After = "{}"
				} else {
					one.Before = "{}"
				}
				all = append(all, one)
			}
		case x.IsValid() && y.IsValid() && reflect.DeepEqual(x.Interface(), y.Interface()):
		case fieldText(x) != fieldText(y):
			all = append(all, FieldChange{f.Path, fieldText(x), fieldText(y)})
		}
	}
	return all
}

func fieldText(v reflect.Value) string {
	if !v.IsValid() || v.IsZero() {
		return ""
	}
	return spec.Text(v)
}
