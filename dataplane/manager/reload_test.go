package manager

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

func (r *rig) reload(services []ServiceSpec, listeners []ListenerSpec) error {
	return r.Reload(r.t.Context(), services, listeners, 0)
}

// nfsAt is a service of the file, with something that may change.
func nfsAt(name, path string) ServiceSpec { return ServiceSpec{Name: name, NFS: &NFSSpec{Path: path}} }

func TestReload(t *testing.T) {
	r := newRig(t)
	services := []ServiceSpec{echoService("steady"), nfsAt("disk", "/a"), echoService("going")}
	listeners := []ListenerSpec{onLoopback("steady", "steady"), onLoopback("disk", "disk"), onLoopback("going", "going"), onLoopback("moving", "steady")}
	r.reboot(services, listeners)
	clients := map[string]*rpcrdma.Client{}
	for _, l := range r.Listeners() {
		clients[l.Name] = r.dial(l)
	}
	r.addListener(onLoopback("added", "steady"))
	steady, disk := r.service("steady"), r.service("disk")

	next := []ListenerSpec{onLoopback("steady", "steady"), onLoopback("disk", "disk"), onLoopback("moving", "steady"), onLoopback("fresh", "new")}
	next[0].Limits = dataplane.Limits{Connections: 9}
	next[0].Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	next[2].Address = "127.0.0.1:7777"
	if err := r.reload([]ServiceSpec{echoService("steady"), nfsAt("disk", "/b"), echoService("new")}, next); err != nil {
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
	if l := r.listener("steady"); l.Limits.Connections != 9 || len(l.Access.Deny) != 1 || l.Connections != 1 {
		t.Errorf("limits %+v", l)
	}
	if l := r.listener("moving"); l.Address.Port() != 7777 {
		t.Errorf("moved to %v", l.Address)
	}
	if r.service("steady") != steady || r.service("disk") == disk || r.service("going") != nil || !r.service("new").started {
		t.Error("services are not those of the new file")
	}
	if err := r.reload([]ServiceSpec{echoService("steady"), nfsAt("disk", "/b"), echoService("new")}, next); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := r.null(clients["steady"]); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if n := len(r.store.saved.Listeners); n != 1 {
		t.Errorf("%d listeners stored", n)
	}
}

// TestReloadDoesWhatItCan: a service that an operator's listener uses stays, an
// address that is taken is told of, the rest is done.
func TestReloadDoesWhatItCan(t *testing.T) {
	r := newRig(t)
	r.reboot([]ServiceSpec{nfsAt("disk", "/a")}, []ListenerSpec{onLoopback("file", "disk")})
	added := r.addListener(onLoopback("added", "disk"))
	c := r.dial(added)
	clash := onLoopback("clash", "fresh")
	clash.Address = added.Address.String()
	err := r.reload([]ServiceSpec{nfsAt("disk", "/b"), echoService("fresh")}, []ListenerSpec{onLoopback("file", "disk"), clash, onLoopback("more", "fresh")})
	var used *InUseError
	var taken *AddressError
	if !errors.As(err, &used) || used.Service != "disk" || !errors.As(err, &taken) || !taken.InUse {
		t.Errorf("error %v", err)
	}
	if r.names() != "added/runtime file/config more/config" {
		t.Errorf("there is %s", r.names())
	}
	if err := r.null(c); err != nil {
		t.Error(err)
	}
	if s := r.Services()[0]; s.Spec.NFS.Path != "/a" {
		t.Errorf("service %+v", s)
	}
}

// TestReloadTakesNames that operators used; theirs come back with a file that
// has them no more, at the next start.
func TestReloadTakesNames(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	added := r.addListener(onLoopback("a", "test"))
	if err := r.reload([]ServiceSpec{echoService("other")}, []ListenerSpec{onLoopback("a", "other")}); err != nil {
		t.Fatal(err)
	}
	if l := r.listener("a"); l.Origin != FromFile || l.Service != "other" {
		t.Errorf("there is %+v", l)
	}
	if !r.log.has("stands in for one of the same name") {
		t.Error("nobody was told")
	}
	r.reboot(nil, nil)
	if l := r.listener("a"); l.Origin != FromOperator || l.Address != added.Address {
		t.Errorf("came back as %+v", l)
	}
}
