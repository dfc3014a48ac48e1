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

// Prepare prepares everything that a new version of the file, which must be checked, needs: it
// binds new addresses and opens new directories, and changes nothing that is in service. limits are those
// of that version; if listeners are bound, a higher limit of the memory is in force at once. Until Commit
// or Discard no other change is made. The error is ChangeErrors, with the reason for each element that is
// not available, ErrShutdown, or that of a ctx that ended while another change was made.
//
// Elements that are the same in both versions continue unchanged. Elements whose limits or
// access changed keep their connections. The others are replaced. Listeners of a replaced
// service are replaced, whether they are the file's or an operator's. Other additions of
// operators stay, unless the file now has their name.
func (m *Manager) Prepare(ctx context.Context, file *spec.All, limits spec.Limits) (*Prepared, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	c := m.toFile(file)
	c.limits = &limits
	if err := c.prepare(ctx); err != nil {
		m.op.Unlock()
		return nil, err
	}
	return &Prepared{c}, nil
}

// Limits returns the limits of the file, and those in force after the commit: with the changes of
// operators, or those of an import. The error is that both do not go together.
func (p *Prepared) Limits() (file, now spec.Limits, err error) { return p.c.limitsAfter() }

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
	_ = p.c.commit(nil) // it fails only to store, and nothing is stored
	return p.retire(drain)
}

// retire frees what was replaced and removed. wait waits for that.
func (p *Prepared) retire(drain time.Duration) (wait func()) {
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
	c.services.logAbsent()
	c.listeners.logAbsent()
	c.connectors.logAbsent()
	c.follow()
	return c
}

// toFileLocked compares the current elements with the file. Elements that anew selects are
// replaced in any case.
func (p *part[S, L]) toFileLocked(file *spec.All, anew func(*S) bool) {
	want := p.withoutRemovedLocked(*p.list(file))
	for i := range want {
		name := want[i].Called()
		t := p.things[name]
		if t != nil && t.failedOfFile() && p.m.file == nil { // Configure has given it up
			continue
		}
		one, err := p.overLocked(want[i])
		switch {
		case err != nil:
			p.c.fail(p.what, name, err)
			p.add(one, FromFile, t).wrong = true
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
