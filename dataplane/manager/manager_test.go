package manager

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

func TestAddAndRemove(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	if f := r.service("test"); !f.opened || !f.started {
		t.Errorf("opened %v, started %v", f.opened, f.started)
	}
	want := onLoopback("a", "test")
	want.Limits, want.Deny = dataplane.Limits{Connections: 5}, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	l := r.addListener(want)
	if l.State != StateUp || l.Origin != FromOperator || l.Live.Service != "test" || l.Live.Limits.Connections != 5 || len(l.Live.Access.Deny) != 1 {
		t.Errorf("added %+v", l)
	}
	want.Address = l.Live.Address.String() // the port that it got is kept
	same(t, "stored", r.store.saved, spec.All{Services: []spec.Service{echoService("test")}, Listeners: []spec.Listener{want}})
	if err := r.null(r.dial(l)); err != nil {
		t.Error(err)
	}
	same(t, "users", r.Services.List()[0].Live.Listeners, []string{"a"})
	var used *InUseError
	if err := r.removeService("test", drainTime); !errors.As(err, &used) || err.Error() != "service test is in use by a; remove them first" {
		t.Errorf("a service in use: %v", err)
	}
	if removed, err := r.Listeners.Remove(t.Context(), "a", drainTime); err != nil || removed.Removed != (dataplane.Removed{Drained: 1}) {
		t.Errorf("removed %+v, %v", removed, err)
	}
	if err := r.removeService("test", drainTime); err != nil || r.service("test") != nil {
		t.Errorf("removed %v, open %v", err, r.service("test"))
	}
	if len(r.Services.List())+len(r.Listeners.List()) != 0 {
		t.Errorf("left %+v, %+v", r.Services.List(), r.Listeners.List())
	}
	if len(r.store.saved.Services)+len(r.store.saved.Listeners) != 0 {
		t.Errorf("stored %+v", r.store.saved)
	}
}

// TestPortOfAddedService: a service that operators added keeps the TCP port that the system chose, over
// changes of its other fields and restarts.
func TestPortOfAddedService(t *testing.T) {
	r := newRig(t)
	given := &spec.NFS{Export: spec.Export{Path: "/a"}, TCPListen: "127.0.0.1:0"}
	if err := r.nfs(given); err != nil {
		t.Fatal(err)
	}
	stored := func() string { return r.store.saved.Services[0].NFS.TCPListen }
	if at := stored(); at != "127.0.0.1:40001" || given.TCPListen != "127.0.0.1:0" {
		t.Errorf("stored %s, given %s", at, given.TCPListen)
	}
	name := r.store.saved.Services[0].Name
	if _, _, err := r.Services.Update(t.Context(), name, func(s *spec.Service) { s.NFS.ReadOnly = true }, UpdateOptions{Drain: drainTime}); err != nil {
		t.Fatal(err)
	}
	if at := stored(); at != "127.0.0.1:40001" {
		t.Errorf("stored after a change: %s", at)
	}
	r.restart(&spec.All{})
	if l := r.Services.List(); len(l) != 1 || l[0].Spec.NFS.TCPListen != "127.0.0.1:40001" || l[0].Live.TCP.Port() != 40001 {
		t.Errorf("after a restart: %+v", l)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	l := r.addListener(onLoopback("a", "test"))
	change := func(f func(*spec.Listener)) spec.Listener {
		s := onLoopback("b", "test")
		f(&s)
		return s
	}
	for _, c := range []struct {
		name, want string
		is         error // with errors.Is; nil is none
		try        func() error
	}{
		{"service of a name", "service test already exists; remove it first or choose another name", dataplane.ErrExists,
			func() error { _, err := r.Services.Add(t.Context(), echoService("test")); return err }},
		{"service's name", `name: "a/b": letters, digits, '_', '.' and '-' make a name, 63 at most`, nil,
			func() error { _, err := r.Services.Add(t.Context(), echoService("a/b")); return err }},
		{"no kind", "kind: exactly one of nfs, echo and forward makes a service", nil,
			func() error { _, err := r.Services.Add(t.Context(), spec.Service{Name: "x"}); return err }},
		{"unknown kind", `kind of service "forward" is not in this build, which has: echo, nfs`, nil,
			func() error {
				_, err := r.Services.Add(t.Context(), spec.Service{Name: "x", Forward: &spec.Forward{Address: "h:1"}})
				return err
			}},
		{"relative path", `nfs.path: "srv" must begin with /: rdmad may be started somewhere else next time`, nil,
			func() error { return r.nfs(&spec.NFS{Export: spec.Export{Path: "srv"}}) }},
		{"squash", `nfs.squash: "some" is not one of none, root_squash, all_squash, root, all`, nil,
			func() error { return r.nfs(&spec.NFS{Export: spec.Export{Path: "/srv", Squash: "some"}}) }},
		{"tcp", `nfs.tcp_listen: "here" is not HOST:PORT`, nil,
			func() error { return r.nfs(&spec.NFS{Export: spec.Export{Path: "/srv"}, TCPListen: "here"}) }},
		{"tcp taken", "service x: tcp_listen: address taken:1 is in use; choose another, or end what listens there", nil,
			func() error { return r.nfs(&spec.NFS{Export: spec.Export{Path: "/srv"}, TCPListen: "taken:1"}) }},
		{"no such service", "no service x; there are: test", dataplane.ErrNotFound,
			func() error { return r.removeService("x", 0) }},

		{"listener of a name", "listener a already exists; remove it first or choose another name", dataplane.ErrExists,
			func() error { return r.try(change(func(s *spec.Listener) { s.Name = "a" })) }},
		{"listener's name", `name: is missing`, nil,
			func() error { return r.try(change(func(s *spec.Listener) { s.Name = "" })) }},
		{"provider", `provider "softiwarp" is not in this build, which has: loopback`, nil,
			func() error { return r.try(change(func(s *spec.Listener) { s.Provider = "softiwarp" })) }},
		{"address", `address: port "x" is not a number from 0 to 65535`, nil,
			func() error { return r.try(change(func(s *spec.Listener) { s.Address = "127.0.0.1:x" })) }},
		{"address in use", "listener b: address " + l.Live.Address.String() + " is in use; choose another, or end what listens there", nil,
			func() error { return r.try(change(func(s *spec.Listener) { s.Address = l.Live.Address.String() })) }},
		{"listener's service", "no service x; there are: test", dataplane.ErrNotFound,
			func() error { return r.try(change(func(s *spec.Listener) { s.Service = "x" })) }},
		{"limit", "limits.handshakes: -1 is out of range 1..65536", nil,
			func() error { return r.try(change(func(s *spec.Listener) { s.Limits.Handshakes = -1 })) }},
		{"prefix", `deny: "192.0.2.1/24" has bits set past its length; write 192.0.2.0/24`, nil,
			func() error {
				return r.try(change(func(s *spec.Listener) { s.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")} }))
			}},
		{"no such listener", "no listener x; there are: a", dataplane.ErrNotFound,
			func() error { _, err := r.Listeners.Remove(t.Context(), "x", 0); return err }},
		{"update of nobody", "no listener x; there are: a", dataplane.ErrNotFound,
			func() error {
				_, _, err := r.Listeners.Update(t.Context(), "x", func(*spec.Listener) {}, UpdateOptions{})
				return err
			}},
		{"update out of range", "limits.connections: -1 is out of range 1..65536", nil,
			func() error {
				_, _, err := r.Listeners.Update(t.Context(), "a", func(l *spec.Listener) { l.Limits.Connections = -1 }, UpdateOptions{})
				return err
			}},
	} {
		before := r.store.saved
		err := c.try()
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v is not %v", c.name, err, c.is)
		}
		same(t, c.name+": stored", r.store.saved, before)
	}
	if r.names() != "a/runtime" || len(r.Services.List()) != 1 || len(r.data.Listeners()) != 1 {
		t.Errorf("there are %s", r.names())
	}
}

func (r *rig) nfs(n *spec.NFS) error {
	_, err := r.Services.Add(r.t.Context(), spec.Service{Name: "x", NFS: n})
	return err
}

func (r *rig) try(s spec.Listener) error {
	_, err := r.Listeners.Add(r.t.Context(), s)
	return err
}

// TestNothingHalfDone: when the disk is full, rpcbind is held by another or a
// directory is missing, nothing stays bound or open.
func TestNothingHalfDone(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	l := r.addListener(onLoopback("a", "test"))
	full := syscall.ENOSPC
	r.store.err = full
	var stored *StoreError
	if _, err := r.Services.Add(t.Context(), echoService("b")); !errors.As(err, &stored) || !errors.Is(err, full) || r.service("b") != nil {
		t.Errorf("service: %v, open %v", err, r.service("b"))
	}
	if _, err := r.Listeners.Add(t.Context(), onLoopback("b", "test")); !errors.As(err, &stored) {
		t.Errorf("listener: %v", err)
	}
	deny := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c := r.dial(l)
	if _, _, err := r.Listeners.Update(t.Context(), "a", func(l *spec.Listener) { l.Deny, l.Limits.Connections = deny, 1 }, UpdateOptions{EndDenied: true}); !errors.As(err, &stored) {
		t.Errorf("update: %v", err)
	}
	if err := r.null(c); err != nil {
		t.Errorf("a connection was ended: %v", err)
	}
	if info := r.listener("a"); len(info.Live.Access.Deny) != 0 || info.Live.Limits.Connections != 0 || len(info.Spec.Deny) != 0 {
		t.Errorf("changed: %+v", info)
	}
	if _, err := r.Listeners.Remove(t.Context(), "a", drainTime); !errors.As(err, &stored) {
		t.Errorf("removal: %v", err)
	}
	if err := r.null(r.dial(l)); err != nil || r.names() != "a/runtime" {
		t.Errorf("the listener doesn't go on: %v, %s", err, r.names())
	}
	r.store.err = nil
	r.openErr = errors.New("no such directory")
	var unopened *OpenError
	if _, err := r.Services.Add(t.Context(), echoService("b")); !errors.As(err, &unopened) || err.Error() != "service b: no such directory" || r.service("b") != nil {
		t.Errorf("service: %v, open %v", err, r.service("b"))
	}
	r.rpcbind.err = errors.New("rpcbind: two addresses")
	b := onLoopback("b", "test")
	b.RPCBind = true
	var invalid *InvalidError
	if _, err := r.Listeners.Add(t.Context(), b); !errors.As(err, &invalid) || err.Error() != "rpcbind: two addresses" {
		t.Errorf("listener: %v", err)
	}
	if n := len(r.data.Listeners()); n != 1 {
		t.Errorf("%d listeners are bound", n)
	}
}

func TestUpdate(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	l := r.addListener(onLoopback("a", "test"))
	gone, deny := r.dial(l), []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	info, n, err := r.Listeners.Update(t.Context(), "a", func(l *spec.Listener) { l.Deny, l.Limits.Connections = deny, 7 }, UpdateOptions{EndDenied: true})
	if err != nil || n != 1 || info.Live.Limits.Connections != 7 || len(info.Live.Access.Deny) != 1 {
		t.Errorf("%+v, %d ended, %v", info, n, err)
	}
	<-gone.Done()
	stored := r.store.saved.Listeners[0]
	same(t, "stored", stored.Deny, deny)
	same(t, "stored", stored.Limits, dataplane.Limits{Connections: 7})
}

// TestUpdateDoesNotHoldOthers: while the connections that an update ends have calls that hang, other
// changes can be made.
func TestUpdateDoesNotHoldOthers(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	l := r.addListener(onLoopback("a", "test"))
	f := r.service("test")
	f.hold, f.entered, f.deaf = make(chan struct{}), make(chan struct{}, 1), true
	c := r.dial(l)
	var ends sync.WaitGroup
	ends.Go(func() { _ = r.null(c) }) // its connection ends
	<-f.entered
	ends.Go(func() {
		_, n, err := r.Listeners.Update(t.Context(), "a", func(l *spec.Listener) { l.Deny = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }, UpdateOptions{EndDenied: true})
		if err != nil || n != 1 {
			t.Errorf("%d ended, %v", n, err)
		}
	})
	<-c.Done()
	added := make(chan error, 1)
	go func() {
		_, err := r.Services.Add(t.Context(), echoService("other"))
		added <- err
	}()
	select {
	case err := <-added:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("another change waits for the calls")
	}
	close(f.hold)
	ends.Wait()
}

// TestHungFileSystem: a change that waits for a file system gives up, and others are made then.
func TestHungFileSystem(t *testing.T) {
	r := newRig(t)
	r.patience = time.Millisecond
	r.addEcho("test")
	for _, path := range []string{hungPath, hungOpenPath} {
		hung := spec.Service{Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: path}}}
		if _, err := r.Services.Add(t.Context(), hung); !errors.As(err, new(*OpenError)) {
			t.Errorf("an addition: %v", err)
		}
		_, _, err := r.Services.Update(t.Context(), "test", func(s *spec.Service) { s.Echo, s.NFS = nil, hung.NFS }, UpdateOptions{})
		if !errors.As(err, new(*OpenError)) {
			t.Errorf("a change: %v", err)
		}
		file := &spec.All{Services: []spec.Service{hung, {Name: "well", NFS: &spec.NFS{Export: spec.Export{Path: "/well"}}}}}
		_, err = r.Prepare(t.Context(), file, spec.Limits{})
		if failures, ok := errors.AsType[ChangeErrors](err); !ok || len(failures) != 1 || !errors.As(err, new(*OpenError)) {
			t.Errorf("a reload: %v", err)
		}
	}
	r.addEcho("other")
}

// TestSlowFileSystem: a file system that answers, but takes all the time, leaves none for others. They are not to blame.
func TestSlowFileSystem(t *testing.T) {
	r := newRig(t)
	r.patience = time.Millisecond
	for _, order := range [][]string{{hungOpenPath, slowPath}, {slowPath, hungPath}} {
		file := &spec.All{}
		for i, path := range order {
			file.Services = append(file.Services, nfsAt(string(rune('a'+i)), path))
		}
		_, err := r.Prepare(t.Context(), file, spec.Limits{})
		if !errors.Is(err, ErrNotTried) || !strings.HasSuffix(err.Error(), ": not tried: others took all the time") {
			t.Errorf("%q: %v", order, err)
		}
	}
}

// TestEndDoesNotWaitForAFileSystem: a change that waits for a file system gives up when rdmad ends, so that the drain has its
// time.
func TestEndDoesNotWaitForAFileSystem(t *testing.T) {
	for _, path := range []string{hungPath, hungOpenPath} {
		r := newRig(t)
		r.patience = time.Hour
		r.waits = make(chan struct{})
		changed, ended := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := r.Services.Add(t.Context(), nfsAt("disk", path))
			changed <- err
		}()
		<-r.waits
		go func() { ended <- r.Shutdown(t.Context()) }()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the end waits for the change", path)
		}
		if err := <-changed; !errors.Is(err, dataplane.ErrShutdown) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestNobodyWaits: a change whose caller gives up while another change is made waits no longer, and is not made.
func TestNobodyWaits(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	before, _ := r.Limits.Get()
	ctx, cancel := context.WithCancel(t.Context())
	var changes sync.WaitGroup
	r.op.Lock()
	for what, change := range map[string]func() error{
		"an addition": func() error {
			_, err := r.Services.Add(ctx, echoService("other"))
			return err
		},
		"an update": func() error {
			_, _, err := r.Services.Update(ctx, "test", func(*spec.Service) {}, UpdateOptions{})
			return err
		},
		"a removal": func() error {
			_, err := r.Services.Remove(ctx, "test", 0)
			return err
		},
		"limits": func() error {
			_, _, err := r.Limits.Set(ctx, func(l *spec.Limits) { l.Connections = 7 }, nil)
			return err
		},
		"an import": func() error {
			p, err := r.PrepareImport(ctx, &Wanted{All: spec.All{Services: []spec.Service{}}})
			if err == nil {
				p.Discard()
			}
			return err
		},
	} {
		changes.Go(func() {
			if err := change(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	cancel()
	changes.Wait()
	r.op.Unlock()
	if n := len(r.Services.List()); n != 1 {
		t.Errorf("%d services", n)
	}
	now, _ := r.Limits.Get()
	same(t, "limits", now, before)
}

// TestEndWhileTheDiskHangs: while a change is being stored on a disk that hangs, the end lets go of the clients of services
// and of their addresses.
func TestEndWhileTheDiskHangs(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	drained := make(chan struct{}, 2)
	r.service("test").shutdown = func(context.Context) error {
		drained <- struct{}{}
		return nil
	}
	storing, healed := make(chan struct{}), make(chan struct{})
	heal := sync.OnceFunc(func() { close(healed) })
	defer heal()
	r.store.during = func() {
		close(storing)
		<-healed
	}
	added, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := r.Services.Add(t.Context(), echoService("other"))
		added <- err
	}()
	<-storing
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	go func() { ended <- r.Shutdown(ctx) }()
	select {
	case err := <-ended:
		if err != nil || len(drained) != 1 {
			t.Errorf("%d services are drained, %v", len(drained), err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the end waits for the disk")
	}
	if !r.Changing() {
		t.Error("no change is being made")
	}
	if _, err := r.Services.Remove(t.Context(), "test", 0); !errors.Is(err, dataplane.ErrShutdown) {
		t.Errorf("another change: %v", err)
	}
	heal()
	if err := <-added; err != nil {
		t.Errorf("the change: %v", err)
	}
}

// TestRemovalIsAnswered: once it is made, while another change waits.
func TestRemovalIsAnswered(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	r.service("test").shutdown = func(context.Context) error {
		r.op.Lock()
		return nil
	}
	removed := make(chan error, 1)
	go func() { removed <- r.removeService("test", drainTime) }()
	select {
	case err := <-removed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for another change")
	}
	r.op.Unlock()
}

// soon is a context that ends soon, as it says.
type soon struct{ context.Context }

func (soon) Deadline() (time.Time, bool) { return time.Now(), true }

// TestHungFileSystemHasAReason: a change gives up before its caller does, who then has the reason.
func TestHungFileSystemHasAReason(t *testing.T) {
	r := newRig(t)
	r.patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := r.Services.Add(soon{ctx}, spec.Service{Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: hungPath}}})
	if !errors.As(err, new(*OpenError)) || ctx.Err() != nil {
		t.Errorf("%v, when the caller has ended: %v", err, ctx.Err())
	}
}

// TestUpdatesTogether: of two concurrent updates of a listener neither undoes the other, and
// values that neither sets keep their defaults.
func TestUpdatesTogether(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	r.addListener(onLoopback("a", "test"))
	const last = 50
	var both sync.WaitGroup
	for _, set := range []func(l *dataplane.Limits, n int){
		func(l *dataplane.Limits, n int) { l.Connections = n },
		func(l *dataplane.Limits, n int) { l.ConnectionsPerPeer = n },
	} {
		both.Go(func() {
			for n := range last + 1 {
				if _, _, err := r.Listeners.Update(t.Context(), "a", func(l *spec.Listener) { set(&l.Limits, n) }, UpdateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	want := dataplane.Limits{Connections: last, ConnectionsPerPeer: last}
	same(t, "stored", r.store.saved.Listeners[0].Limits, want)
	want.Handshakes = dataplane.DefaultListenerHandshakes
	same(t, "in force", r.listener("a").Live.Limits, want)
}

func TestRegistrationsFollow(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	want := onLoopback("a", "test")
	want.RPCBind = true
	a := r.addListener(want)
	r.addListener(onLoopback("b", "test"))
	if len(r.rpcbind.list) != 1 || r.rpcbind.list[0].Address != a.Live.Address {
		t.Errorf("registered %+v", r.rpcbind.list)
	}
	if _, err := r.Listeners.Remove(t.Context(), "a", drainTime); err != nil || len(r.rpcbind.list) != 0 {
		t.Errorf("registered %+v, %v", r.rpcbind.list, err)
	}
}
