package manager

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// Prepared is a reload that can be committed.
type Prepared struct{ c *Change }

// Prepare prepares everything that a new version of the file, which must be checked, needs:
// it binds the addresses and opens the directories that are new, and changes nothing that is in
// service. Until Commit or Discard no other change is made. The error is ChangeErrors, with the
// reasons of all elements that can't be had, or ErrShutdown.
//
// Elements that are the same in both versions continue unchanged. Elements whose limits or
// access changed keep their connections. The others are replaced. Listeners of a replaced
// service are replaced, whoever added them. Additions of operators stay otherwise, unless the
// file now has their name.
func (m *Manager) Prepare(ctx context.Context, file *spec.All) (*Prepared, error) {
	m.op.Lock()
	c := m.toFile(file)
	if err := c.prepare(ctx); err != nil {
		m.op.Unlock()
		return nil, err
	}
	return &Prepared{c}, nil
}

// Limits returns the limits of the file with those that operators changed. Commit makes them
// the file's.
func (p *Prepared) Limits(file spec.Limits) (spec.Limits, error) {
	p.c.limits = &file
	return p.c.m.limits.over(&file)
}

// Discard frees what was prepared.
func (p *Prepared) Discard() {
	defer p.c.m.op.Unlock()
	p.c.discard()
}

// Commit puts everything that was prepared in service. Replaced and removed elements accept no
// more from then on. Their connections are drained meanwhile, for at most drain; wait waits for
// that.
func (p *Prepared) Commit(drain time.Duration) (wait func()) {
	defer p.c.m.op.Unlock()
	_ = p.c.commit(false) // it fails only to store, and nothing is stored
	if p.c.limits != nil {
		p.c.m.mu.Lock()
		p.c.m.limits.file = *p.c.limits
		p.c.m.mu.Unlock()
	}
	retired := make(chan struct{})
	p.c.m.retiring.Go(func() {
		defer close(retired)
		p.c.retire(drain)
	})
	return func() { <-retired }
}

// toFile returns the change that makes the elements of the file those of a version. The caller
// holds op.
func (m *Manager) toFile(file *spec.All) *Change {
	c := m.newChange()
	c.file = file
	m.mu.Lock()
	c.services.toFileLocked(file, func(*spec.Service) bool { return false })
	c.listeners.toFileLocked(file, func(l *spec.Listener) bool { return c.services.replaces(l.Service) })
	c.connectors.toFileLocked(file, func(*spec.Connector) bool { return false })
	m.mu.Unlock()
	c.follow()
	return c
}

// toFileLocked compares the current elements with the file. Elements that anew selects are
// replaced in any case.
func (p *part[S, L]) toFileLocked(file *spec.All, anew func(*S) bool) {
	want := *p.list(file)
	for i := range want {
		name := want[i].Called()
		one, err := p.overLocked(want[i])
		if err != nil {
			p.c.fail(p.what, name, err)
		}
		t := p.things[name]
		switch {
		case t != nil && t.failedOfFile() && p.m.file == nil: // Configure has given it up
		case t == nil || t.origin != FromFile || t.state != StateUp:
			p.add(one, FromFile, t)
		case anew(&one) || !reflect.DeepEqual(&t.spec, &one):
			p.turn(t, one, anew(&one))
		}
	}
	for _, name := range sortedKeys(p.things) {
		if t := p.things[name]; t.origin == FromFile && !slices.ContainsFunc(want, func(o S) bool { return o.Called() == name }) {
			p.gone = append(p.gone, t)
		}
	}
}
