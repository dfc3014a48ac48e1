package manager

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
)

func (r *rig) update(name string, change func(*spec.Listener), o UpdateOptions) error {
	o.Drain = drainTime
	_, _, err := r.Listeners.Update(r.t.Context(), name, change, o)
	return err
}

func (r *rig) setLimits(change func(*spec.Limits), unset func(*spec.Field) bool) error {
	_, _, err := r.Limits.Set(r.t.Context(), change, unset)
	return err
}

func all(*spec.Field) bool { return true }

// TestChangesLast: what an operator changes of the file's elements is in force after a restart
// and after a reload, beside what the file changes. It ends when it is unset, when the file has
// the same, and when the element is removed.
func TestChangesLast(t *testing.T) {
	r := newRig(t)
	file := func(address string, handshakes int) *spec.All {
		l := onLoopback("a", "disk")
		l.Address, l.Limits.Handshakes = address, handshakes
		return &spec.All{Services: []spec.Service{nfsAt("disk", "/a")}, Listeners: []spec.Listener{l}}
	}
	r.restart(file("127.0.0.1:7001", 5))
	deny := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for _, change := range []func(*spec.Listener){
		func(l *spec.Listener) { l.Deny = deny },
		func(l *spec.Listener) { l.Address = "127.0.0.1:7002" },
		func(l *spec.Listener) { l.Limits.Handshakes = 0 },
	} {
		if err := r.update("a", change, UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.Services.Update(t.Context(), "disk", func(s *spec.Service) { s.NFS.ReadOnly = true }, UpdateOptions{Drain: drainTime}); err != nil {
		t.Fatal(err)
	}
	check := func(when string, perPeer int, changed ...string) {
		t.Helper()
		l := r.listener("a")
		if l.Origin != FromFile || l.State != StateUp || l.Live.Address.Port() != 7002 || l.Spec.Limits.Handshakes != 0 || l.Spec.Limits.ConnectionsPerPeer != perPeer ||
			len(l.Live.Access.Deny) != 1 || !slices.Equal(l.Changed, changed) {
			t.Errorf("%s: %+v", when, l)
		}
		if err := r.null(r.dial(l)); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if s := r.Services.List()[0]; !s.Spec.NFS.ReadOnly || s.Spec.NFS.Path != "/a" || !slices.Equal(s.Changed, []string{"nfs.read_only"}) {
			t.Errorf("%s: service %+v", when, s)
		}
	}
	check("changed", 0, "address", "deny", "limits.handshakes")
	r.restart(file("127.0.0.1:7001", 5))
	check("after a restart", 0, "address", "deny", "limits.handshakes")
	next := file("127.0.0.1:7003", 9)
	next.Listeners[0].Limits.ConnectionsPerPeer = 3
	if err := r.reloadAll(next, drainTime); err != nil {
		t.Fatal(err)
	}
	check("after a reload", 3, "address", "deny", "limits.handshakes")

	// The file has the same handshakes now, but the next change notes that.
	if err := r.update("a", func(l *spec.Listener) { l.Limits.Handshakes = 9 }, UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if l := r.listener("a"); !slices.Equal(l.Changed, []string{"address", "deny"}) {
		t.Errorf("with the file's handshakes: %q", l.Changed)
	}
	if err := r.update("a", func(*spec.Listener) {}, UpdateOptions{Unset: func(f *spec.Field) bool { return f.Path == "address" }}); err != nil {
		t.Fatal(err)
	}
	if l := r.listener("a"); l.Live.Address.Port() != 7003 || !slices.Equal(l.Changed, []string{"deny"}) {
		t.Errorf("with the file's address: %+v", l)
	}
	if _, err := r.Listeners.Remove(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	r.restart(next)
	same(t, "after its removal", r.listener("a").Spec, next.Listeners[0])
}

// TestUnset: only what the file has can be unset, and an error leaves everything as it was.
func TestUnset(t *testing.T) {
	r := newRig(t)
	r.reboot([]spec.Service{echoService("test")}, []spec.Listener{onLoopback("a", "test")})
	added := r.addListener(onLoopback("b", "test"))
	var in *InvalidError
	if err := r.update("b", func(*spec.Listener) {}, UpdateOptions{Unset: all}); !errors.As(err, &in) || in.Field != "unset" {
		t.Errorf("of an addition: %v", err)
	}
	to := func(l *spec.Listener) { l.Address = "127.0.0.1:7001" }
	if err := r.update("a", to, UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := r.dial(r.listener("a"))
	r.store.err = errors.New("disk full")
	for _, err := range []error{
		r.update("a", func(*spec.Listener) {}, UpdateOptions{Unset: all}),
		r.update("a", func(l *spec.Listener) { l.Address = "127.0.0.1:7002" }, UpdateOptions{}),
		r.update("a", func(l *spec.Listener) { l.Limits.Connections = 7 }, UpdateOptions{}),
	} {
		if !errors.As(err, new(*StoreError)) {
			t.Errorf("error %v", err)
		}
	}
	r.store.err = nil
	if err := r.update("a", func(l *spec.Listener) { l.Address = added.Live.Address.String() }, UpdateOptions{}); err == nil {
		t.Error("took another listener's address")
	}
	if l := r.listener("a"); l.Live.Address.Port() != 7001 || !slices.Equal(l.Changed, []string{"address"}) || r.null(c) != nil {
		t.Errorf("after errors: %+v", l)
	}
}

// TestChangedCantComeBack: an element of the file that can't be had as an operator changed it
// does not keep the others from starting, nor does a listener that needs it. Both come when it is
// unset.
func TestChangedCantComeBack(t *testing.T) {
	for _, what := range []string{"address", "directory"} {
		r := newRig(t)
		services := []spec.Service{echoService("test"), nfsAt("disk", "/a")}
		listeners := []spec.Listener{onLoopback("a", "disk"), onLoopback("b", "test")}
		r.reboot(services, listeners)
		change, reason := func(s *spec.Service) { s.NFS.Path = "/missing" }, "no such directory"
		if what == "address" {
			change, reason = func(s *spec.Service) { s.NFS.TCPListen = "127.0.0.1:1" }, "in use"
		}
		if _, _, err := r.Services.Update(t.Context(), "disk", change, UpdateOptions{Drain: drainTime}); err != nil {
			t.Fatal(err)
		}
		if what == "address" {
			r.store.saved.Changed.Services["disk"]["nfs.tcp_listen"] = "taken:1"
		}
		r.missing = "/missing"
		r.reboot(services, listeners)
		disk := r.Services.List()[0]
		if r.names() != "a/config/failed b/config" || disk.State != StateFailed || !strings.Contains(disk.Failure, reason) || !strings.HasPrefix(r.listener("a").Failure, "no service disk") {
			t.Errorf("%s: there is %s, %+v, %+v", what, r.names(), disk, r.listener("a"))
		}
		if err := r.null(r.dial(r.listener("b"))); err != nil {
			t.Error(err)
		}
		if _, _, err := r.Services.Update(t.Context(), "disk", func(*spec.Service) {}, UpdateOptions{Unset: all}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if r.names() != "a/config b/config" || r.Services.List()[0].State != StateUp {
			t.Errorf("%s: there is %s", what, r.names())
		}
		if err := r.null(r.dial(r.listener("a"))); err != nil {
			t.Error(err)
		}
	}
}

// TestReloadBlamesTheChange: a reload that fails at an element that an operator changed says so.
func TestReloadBlamesTheChange(t *testing.T) {
	r := newRig(t)
	r.reboot([]spec.Service{echoService("test")}, []spec.Listener{onLoopback("a", "test")})
	registered := onLoopback("a", "test")
	registered.RPCBind = true
	r.rpcbind.err = errors.New("twice")
	for _, changed := range []bool{false, true} {
		_, err := r.Prepare(t.Context(), &spec.All{Services: []spec.Service{echoService("test")}, Listeners: []spec.Listener{registered}}, r.fileLimits)
		var all ChangeErrors
		if !errors.As(err, &all) || len(all) != 1 || all[0].Changed != changed {
			t.Errorf("changed %v: %+v", changed, err)
		}
		if err := r.update("a", func(l *spec.Listener) { l.Limits.Connections = 7 }, UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLimitsLast: limits that an operator set are in force after a restart and a reload. An
// error changes nothing.
func TestLimitsLast(t *testing.T) {
	r := newRig(t)
	r.fileLimits = spec.Limits{TCPConnections: 100, TCPIdle: time.Minute}
	r.restart(&spec.All{})
	set := func(n int) error {
		return r.setLimits(func(l *spec.Limits) { l.TCPConnections, l.Control.Connections = n, n }, nil)
	}
	if err := set(50); err != nil {
		t.Fatal(err)
	}
	check := func(when string, tcp, control int, idle time.Duration, paths ...string) {
		t.Helper()
		l, changed := r.Limits.Get()
		want := spec.Limits{TCPConnections: tcp, TCPIdle: idle}
		want.Control.Connections = control
		same(t, when, l, want)
		if !slices.Equal(changed, paths) {
			t.Errorf("%s: changed %q", when, changed)
		}
	}
	both := []string{"control.connections", "tcp_connections"}
	check("set", 50, 50, time.Minute, both...)
	same(t, "applied", r.bounds.TCPConnections, 50)
	for _, err := range []error{
		func() error {
			r.store.err = errors.New("disk full")
			defer func() { r.store.err = nil }()
			return set(60)
		}(),
		func() error {
			r.boundsErr = errors.New("too few")
			defer func() { r.boundsErr = nil }()
			return set(60)
		}(),
		set(-1),
	} {
		if err == nil {
			t.Error("no error")
		}
	}
	if faults, _ := errors.AsType[spec.Errors](set(-1)); len(faults) != 2 {
		t.Errorf("two faults: %v", faults)
	}
	check("after errors", 50, 50, time.Minute, both...)
	same(t, "applied", r.bounds.TCPConnections, 50)
	r.restart(&spec.All{})
	check("after a restart", 50, 50, time.Minute, both...)
	p, err := r.Prepare(t.Context(), &spec.All{}, spec.Limits{TCPConnections: 200, TCPIdle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	_, l, err := p.Limits()
	if p.Commit(0)(); err != nil || l.TCPConnections != 50 || l.TCPIdle != time.Hour {
		t.Errorf("%+v, %v", l, err)
	}
	check("after a reload", 50, 50, time.Hour, both...)
	if err := r.setLimits(func(*spec.Limits) {}, func(f *spec.Field) bool { return f.Path == "tcp_connections" }); err != nil {
		t.Fatal(err)
	}
	check("unset", 200, 50, time.Hour, "control.connections")
	same(t, "applied", r.bounds.TCPConnections, 200)
	r.settle(nil)
	if err := set(1); err == nil {
		t.Error("set while stopping")
	}
}

// TestMemoryIsSetAside: a new listener has its memory before anything old ends. Without that
// memory nothing changes, and a reload says that it may be tried again.
func TestMemoryIsSetAside(t *testing.T) {
	r := newRig(t)
	file := &spec.All{Services: []spec.Service{echoService("test")}}
	for _, name := range []string{"a", "b", "c"} { // a fourth does not fit
		file.Listeners = append(file.Listeners, onLoopback(name, "test"))
	}
	r.restart(file)
	r.data.SetMemory(dataplane.MinMemory)
	before, stored := r.Listeners.List(), r.store.saved
	c := r.dial(r.listener("a"))
	moved := *file
	moved.Listeners = slices.Clone(file.Listeners)
	moved.Listeners[1].Address = "127.0.0.1:7001"
	errs := []error{
		r.update("a", func(l *spec.Listener) { l.Address = "127.0.0.1:7001" }, UpdateOptions{}),
		r.reloadAll(&moved, drainTime),
		func() error { _, err := r.Listeners.Add(t.Context(), onLoopback("d", "test")); return err }(),
	}
	for i, err := range errs {
		none, ok := errors.AsType[*dataplane.NoMemoryError](err)
		if !ok || none.Need != rpcrdma.MinMemoryLimit || none.Left != dataplane.MinMemory-3*rpcrdma.MinMemoryLimit {
			t.Errorf("change %d: %v", i, err)
		}
		if all, ok := errors.AsType[ChangeErrors](err); ok && !all[0].Outside() {
			t.Errorf("change %d can't be tried again: %v", i, err)
		}
	}
	for i, l := range r.Listeners.List() {
		if l.Spec.Address != before[i].Spec.Address || l.Live.Address != before[i].Live.Address || l.Live.Since != before[i].Live.Since {
			t.Errorf("%+v became %+v", before[i], l)
		}
	}
	same(t, "stored", r.store.saved, stored)
	if err := r.null(c); err != nil {
		t.Errorf("the old connection: %v", err)
	}
	if _, err := r.Listeners.Remove(t.Context(), "c", drainTime); err != nil {
		t.Fatal(err)
	}
	if err := r.update("a", func(l *spec.Listener) { l.Address = "127.0.0.1:7001" }, UpdateOptions{}); err != nil {
		t.Errorf("with memory: %v", err)
	}
}

// TestChangedToAnAddedService: a listener of the file that an operator moved to a service that an
// operator added is up again after a restart.
func TestChangedToAnAddedService(t *testing.T) {
	r := newRig(t)
	file := spec.All{Services: []spec.Service{echoService("steady")}, Listeners: []spec.Listener{onLoopback("moved", "steady")}}
	r.restart(&file)
	r.addEcho("added")
	if _, _, err := r.Listeners.Update(t.Context(), "moved", func(l *spec.Listener) { l.Service = "added" }, UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.restart(&file)
	if l := r.listener("moved"); l.State != StateUp || l.Live.Service != "added" || l.Origin != FromFile {
		t.Errorf("%+v", l)
	}
	if err := r.null(r.dial(r.listener("moved"))); err != nil {
		t.Error(err)
	}
}

// TestOutOfRange: a change can't make a limit that the file can't have.
func TestOutOfRange(t *testing.T) {
	o := newOperated(t)
	c := o.spec
	c.Name = "c"
	o.start(c)
	before := o.store.saved
	for _, idle := range []time.Duration{time.Millisecond, 1500 * time.Millisecond, 721 * time.Hour, -time.Second} {
		_, _, err := o.Connectors.Update(t.Context(), "c", func(c *spec.Connector) { c.Limits.Idle = idle }, UpdateOptions{})
		for what, err := range map[string]error{
			"connector": err,
			"listener":  o.update("in", func(l *spec.Listener) { l.Limits.Idle = idle }, UpdateOptions{}),
			"limits":    o.setLimits(func(l *spec.Limits) { l.Idle = idle }, nil),
		} {
			if in, ok := errors.AsType[*InvalidError](err); !ok || !strings.HasSuffix(in.Field, "idle") {
				t.Errorf("idle %v of %s: %v", idle, what, err)
			}
		}
	}
	same(t, "stored", o.store.saved, before)
}

// TestLeftOutHeals: limits that did not go with the file at the start are in force when a reload
// brings a file that they go with.
func TestLeftOutHeals(t *testing.T) {
	o := newOperated(t)
	o.store.saved.Changed = spec.Changes{Limits: spec.Delta{"handshakes": 5, "control.reserved": 300}}
	o.restart(o.file())
	if o.LimitsTrouble() == nil {
		t.Fatal("300 of 256 connections are reserved")
	}
	reload := func(control int) spec.Limits {
		t.Helper()
		var file spec.Limits
		file.Control.Connections = control
		p, err := o.Prepare(t.Context(), o.file(), file)
		if err != nil {
			t.Fatal(err)
		}
		_, now, err := p.Limits()
		if err != nil {
			t.Fatal(err)
		}
		p.Commit(0)()
		if l, _ := o.Limits.Get(); l != now {
			t.Errorf("%+v are prepared, %+v in force", now, l)
		}
		return now
	}
	if l := reload(280); o.LimitsTrouble() == nil || l.Control.Reserved != 0 || l.Handshakes != 5 {
		t.Errorf("still too few: %+v, %v", l, o.LimitsTrouble())
	}
	if l := reload(512); o.LimitsTrouble() != nil || l.Control.Reserved != 300 || l.Handshakes != 5 {
		t.Errorf("enough: %+v, %v", l, o.LimitsTrouble())
	}
	o.store.saved.Changed.Limits["tcp_connections"] = 70_000
	o.restart(o.file())
	if l := reload(512); o.LimitsTrouble() == nil || l.TCPConnections != 0 || l.Control.Reserved != 300 || l.Handshakes != 5 {
		t.Errorf("enough, another is out of range: %+v, %v", l, o.LimitsTrouble())
	}
	if stored := o.kept().Changed.Limits; len(stored) != 3 {
		t.Errorf("%v are stored", stored)
	}
}

// TestStoredOutOfRange: a stored change that is out of range does not keep the rest from starting.
func TestStoredOutOfRange(t *testing.T) {
	o := newOperated(t)
	c := o.spec
	c.Name = "c"
	file := o.file(c)
	file.Listeners = append(file.Listeners, onLoopback("a", "test"))
	idle := spec.Delta{"limits.idle": "500ms"}
	o.store.saved.Changed = spec.Changes{
		Listeners: map[string]spec.Delta{"a": idle}, Connectors: map[string]spec.Delta{"c": idle},
		Limits: spec.Delta{"idle": "10ms", "handshakes": 5, "control.reserved": 300},
	}
	o.restart(file)
	check := func(trouble string) {
		t.Helper()
		if got := o.names(); got != "a/config/failed in/config" {
			t.Errorf("there is %s", got)
		}
		const want = "limits.idle: 500ms is out of range 1s..720h"
		if k := o.Connectors.List()[0]; k.State != StateFailed || k.Failure != want || o.listener("a").Failure != want {
			t.Errorf("connector %+v, listener %+v", k, o.listener("a"))
		}
		l, changed := o.Limits.Get()
		same(t, "limits", l, spec.Limits{Limits: dataplane.Limits{Handshakes: 5}})
		same(t, "changed limits", changed, []string{"handshakes"})
		if err := o.LimitsTrouble(); err == nil || err.Error() != trouble {
			t.Errorf("limits: %v", err)
		}
	}
	const trouble = "idle: 10ms is out of range 1s..720h\ncontrol.reserved: 300 of 256 connections leaves none for other clients"
	check(trouble)
	o.addListener(onLoopback("new", "test")) // stores everything
	if _, err := o.Listeners.Remove(t.Context(), "new", 0); err != nil {
		t.Fatal(err)
	}
	o.restart(file)
	check(trouble)
	for _, err := range []error{
		o.update("a", func(*spec.Listener) {}, UpdateOptions{Unset: all}),
		func() error {
			_, _, err := o.Connectors.Update(t.Context(), "c", func(c *spec.Connector) { c.Limits.Idle = time.Hour }, UpdateOptions{})
			return err
		}(),
		o.setLimits(func(l *spec.Limits) { l.Handshakes = 6 }, nil),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	o.restart(file)
	if got := o.names(); got != "a/config in/config" || o.Connectors.List()[0].State != StateUp || o.LimitsTrouble() != nil {
		t.Errorf("there is %s, %+v, %v", got, o.Connectors.List(), o.LimitsTrouble())
	}
	same(t, "stored limits", o.store.saved.Changed.Limits, spec.Delta{"handshakes": 6})
}
