package manager

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestUpdateReplaces: an update that needs another address, or another service, makes a new
// element in place of the old one. It is stored. On an error everything stays as it was.
func TestUpdateReplaces(t *testing.T) {
	r := newRig(t)
	if _, err := r.Services.Add(t.Context(), nfsAt("disk", "/a")); err != nil {
		t.Fatal(err)
	}
	l := r.addListener(onLoopback("a", "disk"))
	other := r.addListener(onLoopback("b", "disk"))
	c, old := r.dial(l), r.service("disk")
	to := func(address string) error {
		_, _, err := r.Listeners.Update(t.Context(), "a", func(l *spec.Listener) { l.Address = address }, UpdateOptions{Drain: drainTime})
		return err
	}
	stored := r.store.saved
	var in *AddressError
	if err := to(other.Live.Address.String()); !errors.As(err, &in) || !in.InUse {
		t.Errorf("error %v", err)
	}
	r.store.err = errors.New("disk full")
	if err := to("127.0.0.1:7777"); !errors.As(err, new(*StoreError)) {
		t.Errorf("error %v", err)
	}
	r.store.err = nil
	r.openErr = errors.New("no such directory")
	toB := func(s *spec.Service) { s.NFS.Path = "/b" }
	if _, _, err := r.Services.Update(t.Context(), "disk", toB, UpdateOptions{Drain: drainTime}); !errors.As(err, new(*OpenError)) {
		t.Errorf("error %v", err)
	}
	r.openErr = nil
	same(t, "stored", r.store.saved, stored)
	if err := r.null(c); err != nil || r.service("disk") != old || r.listener("a").Live.Address != l.Live.Address {
		t.Errorf("a change that failed left %+v: %v", r.listener("a"), err)
	}

	if err := to("127.0.0.1:7777"); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	c = r.dial(r.listener("a"))
	if _, _, err := r.Services.Update(t.Context(), "disk", toB, UpdateOptions{Drain: drainTime}); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	for _, want := range []string{"a", "b"} {
		if err := r.null(r.dial(r.listener(want))); err != nil {
			t.Error(err)
		}
	}
	r.reboot(nil, nil)
	if a := r.listener("a"); a.Live.Address.Port() != 7777 || a.State != StateUp || r.Services.List()[0].Spec.NFS.Path != "/b" {
		t.Errorf("after a restart %+v, %+v", a, r.Services.List())
	}
}
