package manager

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
)

func (r *rig) reload(services []spec.Service, listeners []spec.Listener) error {
	return r.reloadAll(&spec.All{Services: services, Listeners: listeners}, 0)
}

// reloadAll reloads, and waits until what was replaced is gone.
func (r *rig) reloadAll(file *spec.All, drain time.Duration) error {
	p, err := r.Prepare(r.t.Context(), file, r.fileLimits)
	if err != nil {
		return err
	}
	p.Commit(drain)()
	return nil
}

// nfsAt is a service of the file, with something that may change.
func nfsAt(name, path string) spec.Service {
	return spec.Service{Name: name, NFS: &spec.NFS{Export: spec.Export{Path: path}}}
}

func TestReload(t *testing.T) {
	r := newRig(t)
	services := []spec.Service{echoService("steady"), nfsAt("disk", "/a"), echoService("going")}
	listeners := []spec.Listener{onLoopback("steady", "steady"), onLoopback("disk", "disk"), onLoopback("going", "going"), onLoopback("moving", "steady")}
	r.reboot(services, listeners)
	clients := map[string]*rpcrdma.Client{}
	for _, l := range r.Listeners.List() {
		clients[l.Spec.Name] = r.dial(l)
	}
	r.addListener(onLoopback("added", "steady"))
	steady, disk := r.service("steady"), r.service("disk")

	next := []spec.Listener{onLoopback("steady", "steady"), onLoopback("disk", "disk"), onLoopback("moving", "steady"), onLoopback("fresh", "new")}
	next[0].Limits = dataplane.Limits{Connections: 9}
	next[0].Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	next[2].Address = "127.0.0.1:7777"
	if err := r.reload([]spec.Service{echoService("steady"), nfsAt("disk", "/b"), echoService("new")}, next); err != nil {
		t.Fatal(err)
	}
	if r.names() != "added/runtime disk/config fresh/config moving/config steady/config" {
		t.Errorf("there is %s", r.names())
	}
	for _, name := range []string{"disk", "going", "moving"} {
		<-clients[name].Done()
	}
	if err := r.null(clients["steady"]); err != nil {
		t.Errorf("the one whose limits changed alone: %v", err)
	}
	if l := r.listener("steady"); l.Live.Limits.Connections != 9 || len(l.Live.Access.Deny) != 1 || l.Live.Connections != 1 {
		t.Errorf("limits %+v", l)
	}
	if l := r.listener("moving"); l.Live.Address.Port() != 7777 {
		t.Errorf("moved to %v", l.Live.Address)
	}
	if r.service("steady") != steady || r.service("disk") == disk || r.service("going") != nil || !r.service("new").started {
		t.Error("services are not those of the new file")
	}
	if err := r.reload([]spec.Service{echoService("steady"), nfsAt("disk", "/b"), echoService("new")}, next); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := r.null(clients["steady"]); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if n := len(r.store.saved.Listeners); n != 1 {
		t.Errorf("%d listeners stored", n)
	}
}

// TestReloadRefusedWhole: one element that can't be had refuses the whole reload, with every
// reason. Everything stays as it was, the connections included.
func TestReloadRefusedWhole(t *testing.T) {
	r := newRig(t)
	file, going := onLoopback("file", "disk"), onLoopback("going", "disk")
	r.reboot([]spec.Service{nfsAt("disk", "/a")}, []spec.Listener{file, going})
	added := r.addListener(onLoopback("added", "disk"))
	clients := []*rpcrdma.Client{r.dial(added), r.dial(r.listener("file")), r.dial(r.listener("going"))}
	before, services, disk := r.Listeners.List(), r.Services.List(), r.service("disk")

	clash := onLoopback("clash", "fresh")
	clash.Address = added.Live.Address.String()
	taken := nfsAt("taken", "/b")
	taken.NFS.TCPListen = "taken:1"
	limited := file
	limited.Limits.Connections = 9
	bad := &spec.All{
		Services:  []spec.Service{nfsAt("disk", "/b"), echoService("fresh"), taken},
		Listeners: []spec.Listener{limited, clash, onLoopback("more", "fresh"), onLoopback("lost", "taken")},
	}
	err := r.reloadAll(bad, 0)
	var all ChangeErrors
	if !errors.As(err, &all) || len(all) != 2 {
		t.Fatalf("error %v", err)
	}
	var in *AddressError
	if all[0].What != "service" || all[0].Name != "taken" || all[1].What != "listener" || all[1].Name != "clash" || !errors.As(err, &in) || !in.InUse {
		t.Errorf("failures %+v", all)
	}
	bad.Services, r.openErr = bad.Services[:2], errors.New("no such directory")
	if err := r.reloadAll(bad, 0); !errors.As(err, &all) || len(all) != 4 { // two services, an address, and a service that is not in the file
		t.Errorf("failures %v", err)
	}
	r.openErr = nil
	same(t, "listeners", r.Listeners.List(), before)
	same(t, "services", r.Services.List(), services)
	if r.service("disk") != disk || r.service("fresh") != nil || len(r.data.Listeners()) != 3 {
		t.Error("a part of the reload is left")
	}
	for _, c := range clients {
		if err := r.null(c); err != nil {
			t.Error(err)
		}
	}
	if err := r.reload(nil, nil); !errors.As(err, new(*InUseError)) {
		t.Errorf("without the service of an operator's listener: %v", err)
	}
}

// TestReloadReplacesAService: its listeners, whoever added them, keep their addresses and
// give new connections to the new one. Calls of old connections finish on the old one.
func TestReloadReplacesAService(t *testing.T) {
	r := newRig(t)
	listeners := []spec.Listener{onLoopback("file", "disk")}
	r.reboot([]spec.Service{nfsAt("disk", "/a")}, listeners)
	added, old := r.addListener(onLoopback("added", "disk")), r.service("disk")
	old.hold, old.entered = make(chan struct{}), make(chan struct{}, 1)
	c, answered, file := r.dial(added), make(chan error, 1), r.listener("file")
	go func() { answered <- r.null(c) }()
	<-old.entered
	p, err := r.Prepare(t.Context(), &spec.All{Services: []spec.Service{nfsAt("disk", "/b")}, Listeners: listeners}, r.fileLimits)
	if err != nil {
		t.Fatal(err)
	}
	wait := p.Commit(drainTime)
	for _, was := range []ListenerInfo{added, file} {
		now := r.listener(was.Spec.Name)
		if now.Live.Address != was.Live.Address || now.Origin != was.Origin || now.State != StateUp {
			t.Errorf("listener %+v, was %+v", now, was)
		}
		if err := r.null(r.dial(now)); err != nil {
			t.Error(err)
		}
	}
	if old.closed {
		t.Error("the old service was closed under a call")
	}
	close(old.hold)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	wait()
	if !old.closed || r.service("disk").closed {
		t.Error("the old service stays, or the new one does not")
	}
}

// TestReloadExchangesAddresses: listeners exchange their addresses, and one is renamed.
func TestReloadExchangesAddresses(t *testing.T) {
	r := newRig(t)
	services := []spec.Service{echoService("test")}
	at := func(name, address string) spec.Listener {
		l := onLoopback(name, "test")
		l.Address = address
		return l
	}
	r.reboot(services, []spec.Listener{at("a", "127.0.0.1:7001"), at("b", "127.0.0.1:7002"), at("c", "127.0.0.1:7003")})
	if err := r.reload(services, []spec.Listener{at("a", "127.0.0.1:7002"), at("b", "127.0.0.1:7001"), at("d", "127.0.0.1:7003")}); err != nil {
		t.Fatal(err)
	}
	if r.names() != "a/config b/config d/config" {
		t.Errorf("there is %s", r.names())
	}
	for _, l := range r.Listeners.List() {
		if l.Live.Address.String() != l.Spec.Address {
			t.Errorf("listener %s is at %v", l.Spec.Name, l.Live.Address)
		}
		if err := r.null(r.dial(l)); err != nil {
			t.Error(err)
		}
	}
}

// TestReloadTakesNames: a reload takes names that operators used. Theirs are restored at the
// next start with a file that no longer has them.
func TestReloadTakesNames(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	added := r.addListener(onLoopback("a", "test"))
	if err := r.reload([]spec.Service{echoService("other")}, []spec.Listener{onLoopback("a", "other")}); err != nil {
		t.Fatal(err)
	}
	if l := r.listener("a"); l.Origin != FromFile || l.Live.Service != "other" {
		t.Errorf("there is %+v", l)
	}
	if r.log.Lines("stands in for one of the same name") == nil {
		t.Error("nobody was told")
	}
	if err := r.reload([]spec.Service{echoService("other")}, nil); err != nil || r.names() != "" {
		t.Errorf("without the name there is %s, %v", r.names(), err)
	}
	r.reboot(nil, nil)
	if l := r.listener("a"); l.Origin != FromOperator || l.Live.Address != added.Live.Address {
		t.Errorf("came back as %+v", l)
	}
}

// TestReloadBindsAgain: a listener of the file that is being removed is bound
// again when it is gone.
func TestReloadBindsAgain(t *testing.T) {
	r := newRig(t)
	services, listeners := []spec.Service{echoService("test")}, []spec.Listener{onLoopback("a", "test")}
	r.reboot(services, listeners)
	f := r.service("test")
	f.hold, f.entered = make(chan struct{}), make(chan struct{}, 1)
	c, answered := r.dial(r.listener("a")), make(chan error, 1)
	go func() { answered <- r.null(c) }()
	<-f.entered
	events, removed := r.data.Subscribe(16), make(chan error, 1)
	defer events.Close()
	go func() {
		_, err := r.Listeners.Remove(t.Context(), "a", drainTime)
		removed <- err
	}()
	<-events.Events() // it drains
	if err := r.reload(services, listeners); err != nil {
		t.Error(err)
	}
	if err := <-removed; err != nil || <-answered == nil {
		t.Errorf("removed: %v; or the call was answered", err)
	}
	if r.names() != "a/config" {
		t.Errorf("there is %q", r.names())
	}
}
