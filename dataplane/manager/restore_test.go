package manager

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

func TestAdditionsSurviveARestart(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	want := onLoopback("a", "test")
	want.Limits, want.Allow = dataplane.Limits{ConnectionsPerPeer: 3}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	before := r.addListener(want)
	r.reboot(nil, nil)
	after := r.listener("a")
	if after.Live.Address != before.Live.Address || after.State != StateUp || after.Origin != FromOperator {
		t.Errorf("came back as %+v", after)
	}
	same(t, "spec", after.Spec, before.Spec)
	if err := r.null(r.dial(after)); err != nil {
		t.Error(err)
	}
}

// TestTheFileStandsBefore: the file has priority over additions of the same names. These are
// kept for a file without them.
func TestTheFileStandsBefore(t *testing.T) {
	r := newRig(t)
	r.addEcho("test")
	added := r.addListener(onLoopback("a", "test"))
	r.reboot([]spec.Service{echoService("test")}, []spec.Listener{onLoopback("a", "test")})
	if r.names() != "a/config" || r.Services.List()[0].Origin != FromFile {
		t.Errorf("there is %s, %+v", r.names(), r.Services.List())
	}
	for _, want := range []string{"listener=a", "service=test", "stands in for one of the same name that was added before"} {
		if r.log.Lines(want) == nil {
			t.Errorf("the log lacks %q", want)
		}
	}
	r.addEcho("more") // saves what is there
	r.reboot(nil, nil)
	if got := r.listener("a"); got.Origin != FromOperator || got.Live.Address != added.Live.Address {
		t.Errorf("without the file's there is %+v", got)
	}
	// Removed under the file, it is forgotten.
	r.reboot([]spec.Service{echoService("test")}, []spec.Listener{onLoopback("a", "test")})
	if _, err := r.Listeners.Remove(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	r.reboot(nil, nil)
	if r.names() != "" {
		t.Errorf("there is %s", r.names())
	}
}

// TestWhatCantComeBack: an addition that can't be restored is in the list with the reason, can
// be removed or added again, and does not affect others.
func TestWhatCantComeBack(t *testing.T) {
	r := newRig(t)
	r.store.saved = spec.All{
		Services: []spec.Service{
			{Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: "/srv"}, TCPListen: "taken:1"}},
			echoService("test"),
		},
		Listeners: []spec.Listener{onLoopback("a", "disk"), onLoopback("b", "test"), onLoopback("c", "none")},
	}
	stored := r.store.saved
	r.reboot(nil, nil)
	if r.names() != "a/runtime/failed b/runtime c/runtime/failed" {
		t.Errorf("there is %s", r.names())
	}
	if s := r.Services.List()[0]; s.State != StateFailed || s.Failure != "service disk: tcp_listen: address taken:1 is in use; choose another, or end what listens there" {
		t.Errorf("service %+v", s)
	}
	if l := r.listener("a"); l.Failure != "no service disk; there are: test" || l.Live.Address.IsValid() {
		t.Errorf("listener %+v", l)
	}
	same(t, "stored", r.store.saved, stored)
	var failed *FailedError
	if _, _, err := r.Listeners.Update(t.Context(), "a", func(*spec.Listener) {}, UpdateOptions{}); !errors.As(err, &failed) {
		t.Errorf("changed: %v", err)
	}
	if err := r.removeService("disk", 0); err == nil {
		t.Error("removed a service that a listener waits for")
	}
	if _, err := r.Listeners.Remove(t.Context(), "c", 0); err != nil {
		t.Error(err)
	}
	if _, err := r.Services.Add(t.Context(), spec.Service{Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: "/srv"}}}); err != nil {
		t.Error(err)
	}
	r.addListener(onLoopback("a", "disk"))
	if r.names() != "a/runtime b/runtime" || len(r.store.saved.Listeners) != 2 {
		t.Errorf("there is %s, stored %+v", r.names(), r.store.saved.Listeners)
	}
}
