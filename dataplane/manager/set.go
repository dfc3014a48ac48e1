package manager

import (
	"context"
	"errors"
	"maps"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// kind implements what differs between services, listeners and connectors. The methods whose
// names end in Locked are called with Manager.mu held, the others with Manager.op.
type kind[S spec.Named, L any] interface {
	// check checks an operator's specification, in addition to spec.Check. file is the element
	// of the file that it changes; nil for an addition.
	check(s, file *S) error
	// make makes a new element for a change, and binds its addresses. It returns nil without
	// an error if it needs another element of the change that failed.
	make(ctx context.Context, s *S, c *Change) (running[S], error)
	// sameBinding reports whether a can become b without being bound again.
	sameBinding(a, b *S) bool
	// mayAmend returns why a running element can't have the limits and access of s, or nil.
	mayAmend(s *S) error
	// mayGo returns why a change can't remove the element, or nil.
	mayGo(name string, c *Change) error
	// unused waits until no other element uses an element that is no longer listed.
	unused(r running[S])
	// look returns a function that fills in Live, and State and Failure if necessary. The
	// function is called with mu held.
	look() func(*Info[S, L], running[S])
}

// running is what was made from a specification.
type running[S spec.Named] interface {
	// Sockets returns the TCP sockets at which it accepts, which a successor may take over.
	Sockets() []net.Listener
	// Open opens directories and files; see Service.
	Open(ctx context.Context) error
	// Enter lists it in the data plane, in place of the one of its name.
	Enter()
	// Start begins to serve, unless the data plane does that, and returns.
	Start()
	// update applies limits and access to new connections.
	update(s *S) error
	// EndDenied ends the connections of a listener that may no longer connect.
	EndDenied() int
	// drain stops accepting and lets calls finish until ctx ends.
	drain(ctx context.Context) (dataplane.Removed, error)
	// close frees everything. It may be called more than once.
	close()
	// pin writes the port that the system chose into s.
	pin(s *S)
}

// set is a Set of one kind.
type set[S spec.Named, L any] struct {
	kind[S, L]
	m    *Manager
	what string // service, listener or connector
	list func(*spec.All) *[]S
	kept func(*spec.Changes) (*map[string]spec.Delta, *[]string)
	in   func(*Change) *part[S, L] // its part of a change

	// Under Manager.mu:
	things   map[string]*thing[S]
	leaving  map[*thing[S]]struct{} // others have their names; being removed
	shadowed []S                    // additions with names that the configuration file has taken
	changed  map[string]spec.Delta  // what operators changed of the file's elements, by name
	removed  []string               // elements of the file that imports took out of service, by name
}

// thing is a service, listener or connector that is up, is being removed, or could not be
// restored.
type thing[S spec.Named] struct {
	spec    S
	origin  Origin
	state   string
	failure string
	running running[S]    // nil with StateFailed
	gone    chan struct{} // closed when it has been removed
}

func newSet[S spec.Named, L any](m *Manager, what string, k kind[S, L], list func(*spec.All) *[]S, kept func(*spec.Changes) (*map[string]spec.Delta, *[]string), in func(*Change) *part[S, L]) *set[S, L] {
	s := &set[S, L]{kind: k, m: m, what: what, list: list, kept: kept, in: in, things: make(map[string]*thing[S]), leaving: make(map[*thing[S]]struct{}), changed: make(map[string]spec.Delta)}
	changed, removed := kept(&m.cfg.Changed)
	maps.Copy(s.changed, *changed)
	s.removed = *removed
	return s
}

// List implements Set.
func (s *set[S, L]) List() []Info[S, L] {
	fill := s.look()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	out := make([]Info[S, L], 0, len(s.things))
	for _, name := range sortedKeys(s.things) {
		t := s.things[name]
		info := Info[S, L]{Spec: t.spec, Origin: t.origin, State: t.state, Failure: t.failure}
		if t.origin == FromFile {
			info.Changed = sortedKeys(s.changed[name])
		}
		fill(&info, t.running)
		out = append(out, info)
	}
	return out
}

// info describes the element of a name. It returns the zero value if the element is gone.
func (s *set[S, L]) info(name string) (out Info[S, L]) {
	for _, i := range s.List() {
		if i.Spec.Called() == name {
			out = i
		}
	}
	return out
}

func (s *set[S, L]) get(name string) *thing[S] {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.things[name]
}

// fail lists an element as failed, and logs why.
func (s *set[S, L]) fail(one S, origin Origin, err error) {
	s.logNotBroughtBack(one.Called(), err)
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.things[one.Called()] = &thing[S]{spec: one, origin: origin, state: StateFailed, failure: err.Error(), gone: make(chan struct{})}
}

// Add implements Set.
func (s *set[S, L]) Add(ctx context.Context, want S) (Info[S, L], error) {
	if err := s.checked(&want, nil); err != nil {
		return Info[S, L]{}, err
	}
	if err := s.m.begin(ctx); err != nil {
		return Info[S, L]{}, err
	}
	defer s.m.op.Unlock()
	if err := s.m.cfg.Room(s.m.count() + 1); err != nil {
		return Info[S, L]{}, err
	}
	c := s.m.newChange()
	old, err := s.free(want.Called())
	if err != nil {
		return Info[S, L]{}, err
	}
	e := s.in(c).add(want, FromOperator, old)
	e.pin = true
	if err := c.make(ctx, s.m.save); err != nil {
		return Info[S, L]{}, err
	}
	s.logAdded(&e.fresh.spec)
	return s.info(want.Called()), nil
}

// make prepares and commits. The caller holds op. An error for a single element is that of
// the element.
func (c *Change) make(ctx context.Context, store func(spec.All) error) error {
	err := c.prepare(ctx)
	if err == nil {
		return c.commit(store)
	}
	if f, ok := errors.AsType[ChangeErrors](err); ok && len(f) == 1 {
		return f[0].Err
	}
	return err
}

// checked checks an operator's specification.
func (s *set[S, L]) checked(want, file *S) error {
	if err := spec.Check(want); err != nil {
		return err
	}
	return s.check(want, file)
}

// free returns an error if an element has a name. A failed one, which it returns, may be
// replaced.
func (s *set[S, L]) free(name string) (*thing[S], error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	t := s.things[name]
	if t != nil && t.state != StateFailed {
		return nil, &ExistsError{What: s.what, Name: name, State: t.state}
	}
	return t, nil
}

// Update implements Set.
func (s *set[S, L]) Update(ctx context.Context, name string, change func(*S), o UpdateOptions) (u Updated[S, L], ended int, err error) {
	u, r, err := s.update(ctx, name, change, o)
	if err != nil {
		return u, 0, err
	}
	if o.EndDenied { // it waits for calls, which may hang in a file system
		ended = r.EndDenied()
		u.Live = s.info(name).Live
	}
	s.logChanged(&u.Spec, ended)
	return u, ended, nil
}

// update is Update without EndDenied. It returns what is running after it.
func (s *set[S, L]) update(ctx context.Context, name string, change func(*S), o UpdateOptions) (u Updated[S, L], r running[S], err error) {
	if err := s.m.begin(ctx); err != nil {
		return u, nil, err
	}
	defer s.m.op.Unlock()
	t, err := s.upThing(name)
	if err != nil {
		return u, nil, err
	}
	u.Before = copied(t.spec)
	now, err := s.changedSpec(t, change, o.Unset)
	if err != nil {
		return u, nil, err
	}
	c := s.m.newChange()
	e := s.in(c).turn(t, now, false)
	e.change, e.pin = t.origin == FromFile, true
	if !e.amend {
		var file *S
		if e.change {
			file = s.base(name)
		}
		if err := s.checked(&now, file); err != nil {
			return u, nil, err
		}
		c.follow()
	}
	// No connection may end before the change is stored.
	if err := c.make(ctx, s.m.save); err != nil {
		return u, nil, err
	}
	s.m.retiring.Go(func() { c.retire(o.Drain) })
	u.Info = s.info(name)
	return u, s.get(name).running, nil
}

// copied returns a specification that shares no section with s.
func copied[S spec.Named](s S) S {
	root := reflect.ValueOf(&s).Elem()
	for i := range root.NumField() {
		if f := root.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			section := reflect.New(f.Type().Elem())
			section.Elem().Set(f.Elem())
			f.Set(section)
		}
	}
	return s
}

// upThing returns an element that can be changed.
func (s *set[S, L]) upThing(name string) (*thing[S], error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	t := s.things[name]
	switch {
	case t == nil:
		return nil, &NotFoundError{What: s.what, Name: name, Known: sortedKeys(s.things)}
	case t.state == StateFailed && !t.failedOfFile():
		return nil, &FailedError{What: s.what, Name: name, Failure: t.failure}
	case t.state == StateDraining:
		return nil, &FailedError{What: s.what, Name: name, Failure: "it is being removed"}
	}
	return t, nil
}

// Remove implements Set.
func (s *set[S, L]) Remove(ctx context.Context, name string, drain time.Duration) (removed Removal[S], err error) {
	c, t, err := s.remove(ctx, name)
	if err != nil {
		return removed, err
	}
	s.m.mu.Lock() // a reload may list the element anew, and take that back
	removed.Before = t.spec
	s.m.mu.Unlock()
	if c != nil {
		c.retire(drain)
		removed.Removed = s.in(c).ends[t]
		return removed, nil
	}
	if t.running != nil { // it had not failed
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		removed.Removed, _ = t.running.drain(ctx) // the first Remove logs the error
	}
	<-t.gone
	return removed, nil
}

// remove marks an element as being removed, and stores that. The change is nil if that was
// done before.
func (s *set[S, L]) remove(ctx context.Context, name string) (*Change, *thing[S], error) {
	if err := s.m.begin(ctx); err != nil {
		return nil, nil, err
	}
	defer s.m.op.Unlock()
	t := s.get(name)
	switch {
	case t == nil:
		return nil, nil, s.notFound(name)
	case s.drains(t):
		return nil, t, nil
	}
	c := s.m.newChange()
	s.in(c).gone = []*thing[S]{t}
	return c, t, c.make(ctx, s.m.save)
}

func (s *set[S, L]) drains(t *thing[S]) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return t.state == StateDraining
}

func (s *set[S, L]) notFound(name string) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return &NotFoundError{What: s.what, Name: name, Known: sortedKeys(s.things)}
}

// end frees an element and removes it from the list.
func (s *set[S, L]) end(t *thing[S]) {
	if t.running != nil {
		s.unused(t.running)
		t.running.close()
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	delete(s.leaving, t)
	if s.things[t.spec.Called()] == t {
		delete(s.things, t.spec.Called())
	}
	close(t.gone)
}

// ended reports whether end has freed an element. The caller holds Manager.mu.
func (t *thing[S]) ended() bool {
	select {
	case <-t.gone:
		return true
	default:
		return false
	}
}

// up returns the running elements, by name, and those that others have replaced.
func (s *set[S, L]) up() (out []*thing[S]) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for _, name := range sortedKeys(s.things) {
		if t := s.things[name]; t.running != nil {
			out = append(out, t)
		}
	}
	return slices.AppendSeq(out, maps.Keys(s.leaving))
}

// restore restores what operators added. The caller holds op.
func (s *set[S, L]) restore(ctx context.Context, saved *spec.All) {
	for _, one := range *s.list(saved) {
		if s.get(one.Called()) != nil {
			s.m.mu.Lock()
			s.shadowed = append(without(s.shadowed, one.Called()), one)
			s.m.mu.Unlock()
			s.logShadowed(one.Called())
			continue
		}
		if err := s.bringBack(ctx, one); err != nil {
			s.fail(one, FromOperator, err)
		}
	}
}

func (s *set[S, L]) bringBack(ctx context.Context, one S) error {
	if err := s.checked(&one, nil); err != nil {
		return err
	}
	c := s.m.newChange()
	s.in(c).add(one, FromOperator, nil)
	return c.make(ctx, nil)
}

// logShadowed says that the configuration file has taken the name of an addition.
func (s *set[S, L]) logShadowed(name string) {
	s.m.log.Warn("what the configuration file names stands in for one of the same name that was added before; "+
		"rename it in the file to have both, or remove it by rdmactl to forget the one added", s.what, name)
}

// keepLocked puts what operators added into all, for the next start.
func (s *set[S, L]) keepLocked(all *spec.All) {
	kept := slices.Clone(s.shadowed)
	for _, name := range sortedKeys(s.things) {
		if t := s.things[name]; t.origin == FromOperator && t.state != StateDraining {
			kept = append(without(kept, name), t.spec)
		}
	}
	*s.list(all) = kept
	changed, removed := s.kept(&all.Changed)
	if len(s.changed) > 0 {
		*changed = maps.Clone(s.changed)
	}
	*removed = s.removed
}

func (s *set[S, L]) startAll() {
	for _, t := range s.up() {
		t.running.Start()
	}
}

// drainAll drains all elements at once.
func (s *set[S, L]) drainAll(ctx context.Context) (cut int, err error) {
	all := s.up()
	removed, errs := make([]dataplane.Removed, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, t := range all {
		wg.Go(func() { removed[i], errs[i] = t.running.drain(ctx) })
	}
	wg.Wait()
	for _, r := range removed {
		cut += r.Cut
	}
	return cut, errors.Join(errs...)
}

// closeAll frees all elements. No more calls may come.
func (s *set[S, L]) closeAll() {
	for _, t := range s.up() {
		if s.drains(t) { // its remover frees it
			<-t.gone
		} else {
			s.end(t)
		}
	}
}

func (s *set[S, L]) countLocked() int { return len(s.things) }

// without returns list without the element of a name.
func without[S spec.Named](list []S, name string) []S {
	return slices.DeleteFunc(slices.Clone(list), func(o S) bool { return o.Called() == name })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
