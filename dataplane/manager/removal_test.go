package manager

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestListenerDrains: meanwhile the service of the listener is in use, its name is in use, and
// the next start does not restore it. A second removal may cut it.
func TestListenerDrains(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	f := r.service("test")
	f.hold, f.entered = make(chan struct{}), make(chan struct{}, 1)
	l := r.addListener(onLoopback("a", "test"))
	c := r.dial(l)
	answered := make(chan error, 1)
	go func() { answered <- r.null(c) }()
	<-f.entered
	events := r.data.Subscribe(16)
	removed := make(chan dataplane.Removed, 2)
	remove := func() {
		n, err := r.Listeners.Remove(t.Context(), "a", drainTime)
		if err != nil {
			t.Error(err)
		}
		removed <- n.Removed
	}
	go remove()
	if e := <-events.Events(); e.Conn.State != dataplane.StateDraining {
		t.Errorf("told of %s", e.Conn.State)
	}
	if r.names() != "a/runtime/draining" || len(r.store.saved.Listeners) != 0 {
		t.Errorf("there is %s, stored %+v", r.names(), r.store.saved.Listeners)
	}
	var exists *ExistsError
	if _, err := r.Listeners.Add(t.Context(), onLoopback("a", "test")); !errors.As(err, &exists) || err.Error() != "listener a is being removed; try again when it is gone" {
		t.Errorf("another of its name: %v", err)
	}
	var used *InUseError
	if err := r.removeService("test", 0); !errors.As(err, &used) {
		t.Errorf("its service: %v", err)
	}
	if _, _, err := r.Listeners.Update(t.Context(), "a", func(*spec.Listener) {}, UpdateOptions{}); err == nil {
		t.Error("changed while it drains")
	}
	// Others go on meanwhile.
	r.addEcho("other")
	if _, err := r.Listeners.Remove(t.Context(), "a", 0); err != nil {
		t.Error(err)
	}
	<-removed
	if <-answered == nil {
		t.Error("the call was answered")
	}
	if r.names() != "" {
		t.Errorf("left %s", r.names())
	}
	if err := r.removeService("test", 0); err != nil {
		t.Error(err)
	}
}

// TestFailedRemovedTwice: an element that could not be restored can be removed by two operators at
// the same time.
func TestFailedRemovedTwice(t *testing.T) {
	r := newRig(t)
	r.store.saved = spec.All{Listeners: []spec.Listener{onLoopback("a", "none")}}
	r.reboot(nil, nil)
	if r.names() != "a/runtime/failed" {
		t.Fatalf("there is %s", r.names())
	}
	c, gone, err := r.listeners.remove(t.Context(), "a") // the first, which then retires it
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := r.Listeners.Remove(t.Context(), "a", 0)
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("the second did not wait for the first: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	c.retire(0)
	<-gone.gone
	if err := <-second; err != nil {
		t.Error(err)
	}
	if r.names() != "" {
		t.Errorf("left %s", r.names())
	}
}

// TestRemovedWhileReloading: a reload lists an element that is being removed, and takes that back,
// while operators who remove it get what it was (a race).
func TestRemovedWhileReloading(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	f := r.service("test")
	f.hold, f.entered = make(chan struct{}), make(chan struct{}, 1)
	l := onLoopback("a", "test")
	l.RPCBind = true
	c := r.dial(r.addListener(l))
	go func() { _ = r.null(c) }()
	<-f.entered
	var removers sync.WaitGroup
	for range 1000 {
		removers.Go(func() {
			removed, err := r.Listeners.Remove(t.Context(), "a", drainTime)
			if removed.Before.Name != "a" && !errors.As(err, new(*NotFoundError)) { // one that comes late
				t.Errorf("%+v, %v", removed, err)
			}
		})
		p, err := r.Prepare(t.Context(), &spec.All{Listeners: []spec.Listener{l}}, spec.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		p.Discard()
	}
	close(f.hold)
	removers.Wait()
}

// TestServiceDrains: calls over TCP have time to finish, and a second removal may have a
// shorter time.
func TestServiceDrains(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	waiting, cut := make(chan struct{}, 2), make(chan struct{})
	r.service("test").shutdown = func(ctx context.Context) error {
		waiting <- struct{}{}
		select {
		case <-ctx.Done():
			close(cut)
		case <-cut:
		}
		return ctx.Err()
	}
	removed := make(chan error, 1)
	go func() { removed <- r.removeService("test", drainTime) }()
	<-waiting
	if s := r.Services.List(); len(s) != 1 || s[0].State != StateDraining {
		t.Errorf("services %+v", s)
	}
	var missing *NotFoundError
	if _, err := r.Listeners.Add(t.Context(), onLoopback("a", "test")); !errors.As(err, &missing) || err.Error() != "no service test; there are none" {
		t.Errorf("a listener for it: %v", err)
	}
	if _, err := r.Services.Add(t.Context(), echoService("test")); !errors.Is(err, dataplane.ErrExists) {
		t.Errorf("another of its name: %v", err)
	}
	if err := r.removeService("test", 0); err != nil {
		t.Error(err)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if len(r.Services.List()) != 0 || r.service("test") != nil {
		t.Errorf("left %+v", r.Services.List())
	}
	r.addEcho("test") // the name is free
}

// TestNothingAfterShutdown: changes are refused, and what is being removed is
// waited for.
func TestNothingAfterShutdown(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	r.addListener(onLoopback("a", "test"))
	if err := errors.Join(r.data.Shutdown(t.Context()), r.Shutdown(t.Context())); err != nil {
		t.Fatal(err)
	}
	if s, l := r.Services.List()[0], r.listener("a"); s.State != StateDraining || l.State != StateDraining {
		t.Errorf("listed as %s and %s", s.State, l.State)
	}
	before := r.store.saved
	_, err1 := r.Services.Add(t.Context(), echoService("b"))
	_, err2 := r.Listeners.Add(t.Context(), onLoopback("b", "test"))
	_, err3 := r.Listeners.Remove(t.Context(), "a", 0)
	for _, err := range []error{err1, err2, err3, r.removeService("test", 0)} {
		if !errors.Is(err, dataplane.ErrShutdown) {
			t.Errorf("error %v", err)
		}
	}
	same(t, "stored", r.store.saved, before)
	r.Close()
	r.Close()
}

// draining adds a listener of the name a with a service that holds a call, and removes it. finish
// answers the call, and waits until the listener is gone.
func (r *rig) draining() (finish func()) {
	r.t.Helper()
	r.addEcho("test")
	f := r.service("test")
	f.hold, f.entered = make(chan struct{}), make(chan struct{}, 1)
	c := r.dial(r.addListener(onLoopback("a", "test")))
	answered, removed := make(chan error, 1), make(chan error, 1)
	go func() { answered <- r.null(c) }()
	<-f.entered
	gone := r.listeners.get("a").gone
	events := r.data.Subscribe(16)
	defer events.Close()
	go func() {
		_, err := r.Listeners.Remove(r.t.Context(), "a", drainTime)
		removed <- err
	}()
	for e := range events.Events() {
		if e.Conn.State == dataplane.StateDraining {
			break
		}
	}
	r.t.Cleanup(func() {
		if err := errors.Join(<-answered, <-removed); err != nil {
			r.t.Error(err)
		}
	})
	return func() {
		close(f.hold)
		<-gone
	}
}

// TestGoneWhileStoring: the removal of a listener ends while another change is being stored. The
// listener stays away if storing fails. Lists have a change only after it is stored.
func TestGoneWhileStoring(t *testing.T) {
	r := newRig(t)
	finish := r.draining()
	r.store.err = errors.New("no space left on device")
	r.store.during = func() {
		if n := len(r.Services.List()); n != 1 {
			t.Errorf("%d services while the second is being stored", n)
		}
		finish()
	}
	var full *StoreError
	if _, err := r.Services.Add(t.Context(), echoService("other")); !errors.As(err, &full) {
		t.Errorf("added: %v", err)
	}
	r.store.err, r.store.during = nil, nil
	if r.names() != "" || len(r.Services.List()) != 1 {
		t.Errorf("left %s and %d services", r.names(), len(r.Services.List()))
	}
	r.addListener(onLoopback("a", "test")) // the name is free
}

// TestGoneWhilePreparing: nothing is kept of a listener whose removal ends while a reload that brings
// back its name is being prepared.
func TestGoneWhilePreparing(t *testing.T) {
	r := newRig(t)
	finish := r.draining()
	p, err := r.Prepare(t.Context(), &spec.All{Listeners: []spec.Listener{onLoopback("a", "test")}}, r.fileLimits)
	if err != nil {
		t.Fatal(err)
	}
	finish()
	p.Commit(drainTime)()
	if r.names() != "a/config" || len(r.listeners.leaving) != 0 {
		t.Errorf("there is %s, and %d are leaving", r.names(), len(r.listeners.leaving))
	}
}

// TestLimitsAreThereWhenStored: limits that are being stored are not in force yet, and are not if that
// fails.
func TestLimitsAreThereWhenStored(t *testing.T) {
	r := newRig(t)
	full := errors.New("no space left on device")
	before := func() {
		t.Helper()
		if l, changed := r.Limits.Get(); l.Handshakes != 0 || len(changed) != 0 {
			t.Errorf("%d handshakes, changed %v", l.Handshakes, changed)
		}
	}
	r.store.err, r.store.during = full, before
	set := func() error { return r.setLimits(func(l *spec.Limits) { l.Handshakes = 6 }, nil) }
	if err := set(); !errors.Is(err, full) {
		t.Errorf("set: %v", err)
	}
	before()
	p, err := r.PrepareImport(t.Context(), &Wanted{Limits: &spec.Limits{Limits: dataplane.Limits{Handshakes: 7}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.CommitImport(0, func(all spec.All) error {
		before()
		if len(all.Changed.Limits) != 1 {
			t.Errorf("to be stored: %v", all.Changed.Limits)
		}
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("import: %v", err)
	}
	before()
	r.store.err, r.store.during = nil, nil
	if err := set(); err != nil || r.bounds.Handshakes != 6 || len(r.store.saved.Changed.Limits) != 1 {
		t.Errorf("%v; %d handshakes; stored %v", err, r.bounds.Handshakes, r.store.saved.Changed.Limits)
	}
}
