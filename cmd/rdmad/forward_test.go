package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestForwardAtRuntime: a forward service is added in front of another of the
// same daemon, carries files, refuses clients when that is gone, and is back
// after a restart.
func TestForwardAtRuntime(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t)
	r := startHere(t, dir, "")
	r.addDisk()
	address := r.manager.Services.List()[0].Live.TCP.String()
	var invalid *manager.InvalidError
	bad := spec.Service{Name: "up", Forward: &spec.Forward{Address: address, DialTimeout: time.Hour}}
	if _, err := r.manager.Services.Add(t.Context(), bad); !errors.As(err, &invalid) || invalid.Field != "forward.dial_timeout" {
		t.Errorf("dial_timeout of an hour: %v", err)
	}
	want := spec.Service{Name: "up", Forward: &spec.Forward{Address: address, CallTimeout: time.Minute}}
	info, err := r.manager.Services.Add(t.Context(), want)
	if err != nil || info.Spec.Kind() != "forward" {
		t.Fatalf("%+v, %v", info, err)
	}
	through := spec.Listener{Name: "up", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "up"}
	rpcbind := through
	rpcbind.RPCBind = true
	if _, err := r.manager.Listeners.Add(t.Context(), rpcbind); err == nil || !strings.Contains(err.Error(), "rpcbind") {
		t.Errorf("with rpcbind: %v", err)
	}
	if _, err := r.manager.Listeners.Add(t.Context(), through); err != nil {
		t.Fatal(err)
	}
	c := r.dial(p, "up")
	client := nfstest.FilesOver(c, 0, 0)
	root := have(client.Mount(t.Context(), "/export"))(t)
	if _, err := client.Create(t.Context(), root, "file"); err != nil {
		t.Fatal(err)
	}
	if s := r.services.forwardStats()["up"]; s.Connections != 1 || s.Calls != 2 || s.Replies != 2 {
		t.Errorf("%+v", s)
	}
	c.Close()
	r.end()

	r = startHere(t, dir, "")
	defer r.end()
	for _, s := range r.manager.Services.List() {
		if s.Spec.Name == "up" && (s.State != manager.StateUp || *s.Spec.Forward != *want.Forward) {
			t.Errorf("after a restart: %+v, %+v", s, *s.Spec.Forward)
		}
	}
	if l := r.listener("up"); l.State != manager.StateUp {
		t.Errorf("after a restart: %+v", l)
	}
}
