package manager

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
)

func TestAddAndRemove(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	if f := r.service("test"); !f.opened || !f.started {
		t.Errorf("opened %v, started %v", f.opened, f.started)
	}
	spec := onLoopback("a", "test")
	spec.Limits, spec.Deny = dataplane.Limits{Connections: 5}, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	l := r.addListener(spec)
	if l.State != StateUp || l.Origin != FromOperator || l.Service != "test" || l.Limits.Connections != 5 || len(l.Access.Deny) != 1 {
		t.Errorf("added %+v", l)
	}
	spec.Address = l.Address.String() // the port that it got is kept
	same(t, "stored", r.store.saved, Saved{Services: []ServiceSpec{echoService("test")}, Listeners: []ListenerSpec{spec}})
	if err := r.null(r.dial(l)); err != nil {
		t.Error(err)
	}
	same(t, "users", r.Services()[0].Listeners, []string{"a"})
	var used *InUseError
	if err := r.RemoveService("test", drainTime); !errors.As(err, &used) || err.Error() != "service test is in use by a; remove them first" {
		t.Errorf("a service in use: %v", err)
	}
	if removed, err := r.RemoveListener("a", drainTime); err != nil || removed != (dataplane.Removed{Drained: 1}) {
		t.Errorf("removed %+v, %v", removed, err)
	}
	if err := r.RemoveService("test", drainTime); err != nil || r.service("test") != nil {
		t.Errorf("removed %v, open %v", err, r.service("test"))
	}
	if len(r.Services())+len(r.Listeners()) != 0 {
		t.Errorf("left %+v, %+v", r.Services(), r.Listeners())
	}
	if len(r.store.saved.Services)+len(r.store.saved.Listeners) != 0 {
		t.Errorf("stored %+v", r.store.saved)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	l := r.addListener(onLoopback("a", "test"))
	change := func(f func(*ListenerSpec)) ListenerSpec {
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
			func() error { _, err := r.AddService(t.Context(), echoService("test")); return err }},
		{"service's name", `name: "a/b": letters, digits, '_', '.' and '-' make a name, 63 at most`, nil,
			func() error { _, err := r.AddService(t.Context(), echoService("a/b")); return err }},
		{"no kind", "kind: exactly one of nfs, echo and forward makes a service", nil,
			func() error { _, err := r.AddService(t.Context(), ServiceSpec{Name: "x"}); return err }},
		{"unknown kind", `kind of service "forward" is not in this build, which has: echo, nfs`, nil,
			func() error {
				_, err := r.AddService(t.Context(), ServiceSpec{Name: "x", Forward: &ForwardSpec{Address: "h:1"}})
				return err
			}},
		{"relative path", `nfs.path: "srv" must begin with /: rdmad may be started somewhere else next time`, nil,
			func() error { return r.nfs(&NFSSpec{Path: "srv"}) }},
		{"squash", `nfs.squash: "some" is none of none, root, all`, nil,
			func() error { return r.nfs(&NFSSpec{Path: "/srv", Squash: "some"}) }},
		{"tcp", `nfs.tcp_listen: "here" is not HOST:PORT`, nil,
			func() error { return r.nfs(&NFSSpec{Path: "/srv", TCPListen: "here"}) }},
		{"tcp taken", "service x: tcp_listen: address taken:1 is in use; choose another, or end what listens there", nil,
			func() error { return r.nfs(&NFSSpec{Path: "/srv", TCPListen: "taken:1"}) }},
		{"no such service", "no service x; there are: test", dataplane.ErrNotFound,
			func() error { return r.RemoveService("x", 0) }},

		{"listener of a name", "listener a already exists; remove it first or choose another name", dataplane.ErrExists,
			func() error { return r.try(change(func(s *ListenerSpec) { s.Name = "a" })) }},
		{"listener's name", `name: is missing`, nil,
			func() error { return r.try(change(func(s *ListenerSpec) { s.Name = "" })) }},
		{"provider", `provider "softiwarp" is not in this build, which has: loopback`, nil,
			func() error { return r.try(change(func(s *ListenerSpec) { s.Provider = "softiwarp" })) }},
		{"address", `address: port "x" is not a number from 0 to 65535`, nil,
			func() error { return r.try(change(func(s *ListenerSpec) { s.Address = "127.0.0.1:x" })) }},
		{"address in use", "listener b: address " + l.Address.String() + " is in use; choose another, or end what listens there", nil,
			func() error { return r.try(change(func(s *ListenerSpec) { s.Address = l.Address.String() })) }},
		{"listener's service", "no service x; there are: test", dataplane.ErrNotFound,
			func() error { return r.try(change(func(s *ListenerSpec) { s.Service = "x" })) }},
		{"limit", "limits.handshakes: -1 is out of range 1..65536", nil,
			func() error { return r.try(change(func(s *ListenerSpec) { s.Limits.Handshakes = -1 })) }},
		{"prefix", `deny: "192.0.2.1/24" has bits set past its length; write 192.0.2.0/24`, nil,
			func() error {
				return r.try(change(func(s *ListenerSpec) { s.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")} }))
			}},
		{"no such listener", "no listener x; there are: a", dataplane.ErrNotFound,
			func() error { _, err := r.RemoveListener("x", 0); return err }},
		{"update of nobody", "no listener x; there are: a", dataplane.ErrNotFound,
			func() error { _, _, err := r.UpdateListener("x", ListenerUpdate{}); return err }},
		{"update out of range", "limits.connections: -1 is out of range 0..65536", nil,
			func() error {
				_, _, err := r.UpdateListener("a", ListenerUpdate{Limits: func(l *dataplane.Limits) { l.Connections = -1 }})
				return err
			}},
		{"limits", "limits.connections: -1 is out of range 0..65536", nil,
			func() error { return r.SetLimits(dataplane.Limits{Connections: -1}) }},
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
	if r.names() != "a/runtime" || len(r.Services()) != 1 || len(r.data.Listeners()) != 1 {
		t.Errorf("there are %s", r.names())
	}
}

func (r *rig) nfs(n *NFSSpec) error {
	_, err := r.AddService(r.t.Context(), ServiceSpec{Name: "x", NFS: n})
	return err
}

func (r *rig) try(s ListenerSpec) error {
	_, err := r.AddListener(r.t.Context(), s)
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
	if _, err := r.AddService(t.Context(), echoService("b")); !errors.As(err, &stored) || !errors.Is(err, full) || r.service("b") != nil {
		t.Errorf("service: %v, open %v", err, r.service("b"))
	}
	if _, err := r.AddListener(t.Context(), onLoopback("b", "test")); !errors.As(err, &stored) {
		t.Errorf("listener: %v", err)
	}
	deny := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c := r.dial(l)
	if _, _, err := r.UpdateListener("a", ListenerUpdate{Deny: &deny, Limits: func(l *dataplane.Limits) { l.Connections = 1 }, EndDenied: true}); !errors.As(err, &stored) {
		t.Errorf("update: %v", err)
	}
	if err := r.null(c); err != nil {
		t.Errorf("a connection was ended: %v", err)
	}
	if info := r.listener("a"); len(info.Access.Deny) != 0 || info.Limits.Connections != 0 || len(info.Spec.Deny) != 0 {
		t.Errorf("changed: %+v", info)
	}
	if _, err := r.RemoveListener("a", drainTime); !errors.As(err, &stored) {
		t.Errorf("removal: %v", err)
	}
	if err := r.null(r.dial(l)); err != nil || r.names() != "a/runtime" {
		t.Errorf("the listener doesn't go on: %v, %s", err, r.names())
	}
	r.store.err = nil
	r.openErr = errors.New("no such directory")
	var unopened *OpenError
	if _, err := r.AddService(t.Context(), echoService("b")); !errors.As(err, &unopened) || err.Error() != "service b: no such directory" || r.service("b") != nil {
		t.Errorf("service: %v, open %v", err, r.service("b"))
	}
	r.rpcbind.err = errors.New("rpcbind: two addresses")
	b := onLoopback("b", "test")
	b.RPCBind = true
	var invalid *InvalidError
	if _, err := r.AddListener(t.Context(), b); !errors.As(err, &invalid) || err.Error() != "rpcbind: two addresses" {
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
	info, n, err := r.UpdateListener("a", ListenerUpdate{Deny: &deny, EndDenied: true, Limits: func(l *dataplane.Limits) { l.Connections = 7 }})
	if err != nil || n != 1 || info.Limits.Connections != 7 || len(info.Access.Deny) != 1 {
		t.Errorf("%+v, %d ended, %v", info, n, err)
	}
	<-gone.Done()
	stored := r.store.saved.Listeners[0]
	same(t, "stored", stored.Deny, deny)
	same(t, "stored", stored.Limits, dataplane.Limits{Connections: 7})
}

// TestUpdatesTogether: of two that change a listener at once neither undoes
// what the other did, and what nobody sets stays the default.
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
				if _, _, err := r.UpdateListener("a", ListenerUpdate{Limits: func(l *dataplane.Limits) { set(l, n) }}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	want := dataplane.Limits{Connections: last, ConnectionsPerPeer: last}
	same(t, "stored", r.store.saved.Listeners[0].Limits, want)
	want.Handshakes = dataplane.DefaultListenerHandshakes
	same(t, "in force", r.listener("a").Limits, want)
}

func TestRegistrationsFollow(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	spec := onLoopback("a", "test")
	spec.RPCBind = true
	a := r.addListener(spec)
	r.addListener(onLoopback("b", "test"))
	if len(r.rpcbind.list) != 1 || r.rpcbind.list[0].Address != a.Address {
		t.Errorf("registered %+v", r.rpcbind.list)
	}
	if _, err := r.RemoveListener("a", drainTime); err != nil || len(r.rpcbind.list) != 0 {
		t.Errorf("registered %+v, %v", r.rpcbind.list, err)
	}
}
