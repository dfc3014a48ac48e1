package manager

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
)

func TestAdditionsSurviveARestart(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	spec := onLoopback("a", "test")
	spec.Limits, spec.Allow = dataplane.Limits{ConnectionsPerPeer: 3}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	before := r.addListener(spec)
	if r.service("test").again {
		t.Error("a new service is opened as if it had been there")
	}
	r.reboot(nil, nil)
	if !r.service("test").again {
		t.Error("a service that came back is opened as if it were new")
	}
	after := r.listener("a")
	if after.Address != before.Address || after.State != StateUp || after.Origin != FromOperator {
		t.Errorf("came back as %+v", after)
	}
	same(t, "spec", after.Spec, before.Spec)
	if err := r.null(r.dial(after)); err != nil {
		t.Error(err)
	}
}

// TestTheFileStandsBefore what was added under its names, which is kept for a
// file without them.
func TestTheFileStandsBefore(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	added := r.addListener(onLoopback("a", "test"))
	r.reboot([]ServiceSpec{echoService("test")}, []ListenerSpec{onLoopback("a", "test")})
	if r.names() != "a/config" || r.Services()[0].Origin != FromFile {
		t.Errorf("there is %s, %+v", r.names(), r.Services())
	}
	for _, want := range []string{"listener=a", "service=test", "stands in for one of the same name that was added before"} {
		if !r.log.has(want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	r.addEcho("more") // saves what is there
	r.reboot(nil, nil)
	if got := r.listener("a"); got.Origin != FromOperator || got.Address != added.Address {
		t.Errorf("without the file's there is %+v", got)
	}
	// Removed under the file, it is forgotten.
	r.reboot([]ServiceSpec{echoService("test")}, []ListenerSpec{onLoopback("a", "test")})
	if _, err := r.RemoveListener("a", 0); err != nil {
		t.Fatal(err)
	}
	r.reboot(nil, nil)
	if r.names() != "" {
		t.Errorf("there is %s", r.names())
	}
}

// TestWhatCantComeBack is on the list with the reason, can be removed or added
// again, and keeps nothing else from coming back.
func TestWhatCantComeBack(t *testing.T) {
	r := newRig(t)
	r.store.saved = Saved{
		Services: []ServiceSpec{
			{Name: "disk", NFS: &NFSSpec{Path: "/srv", TCPListen: "taken:1"}},
			echoService("test"),
		},
		Listeners: []ListenerSpec{onLoopback("a", "disk"), onLoopback("b", "test"), onLoopback("c", "none")},
	}
	stored := r.store.saved
	r.reboot(nil, nil)
	if r.names() != "a/runtime/failed b/runtime c/runtime/failed" {
		t.Errorf("there is %s", r.names())
	}
	if s := r.Services()[0]; s.State != StateFailed || s.Failure != "service disk: tcp_listen: address taken:1 is in use; choose another, or end what listens there" {
		t.Errorf("service %+v", s)
	}
	if l := r.listener("a"); l.Failure != "no service disk; there are: test" || l.Address.IsValid() {
		t.Errorf("listener %+v", l)
	}
	same(t, "stored", r.store.saved, stored)
	var failed *FailedError
	if _, _, err := r.UpdateListener("a", ListenerUpdate{}); !errors.As(err, &failed) {
		t.Errorf("changed: %v", err)
	}
	if err := r.RemoveService("disk", 0); err == nil {
		t.Error("removed a service that a listener waits for")
	}
	if _, err := r.RemoveListener("c", 0); err != nil {
		t.Error(err)
	}
	if _, err := r.AddService(t.Context(), ServiceSpec{Name: "disk", NFS: &NFSSpec{Path: "/srv"}}); err != nil {
		t.Error(err)
	}
	r.addListener(onLoopback("a", "disk"))
	if r.names() != "a/runtime b/runtime" || len(r.store.saved.Listeners) != 2 {
		t.Errorf("there is %s, stored %+v", r.names(), r.store.saved.Listeners)
	}
}
