package main

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestEndsBeforeItServes: a service on TCP that is removed before its goroutine begins to serve does
// not end rdmad.
func TestEndsBeforeItServes(t *testing.T) {
	r := startHere(t, t.TempDir(), "")
	defer r.end()
	s := have(r.services.kinds()["nfs"](t.Context(), &spec.Service{Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: t.TempDir()}, TCPListen: apart}}))(t)
	must(t, s.Open(t.Context()))
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.Start()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-r.failed:
		t.Errorf("rdmad ends: %v", err)
	default:
	}
}
