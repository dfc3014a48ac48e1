package main

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/dataplane/trace"
)

// TestSharesFollowMemory: traces and results behind forward have their part of
// limits.memory, also after it changes.
func TestSharesFollowMemory(t *testing.T) {
	r := startHere(t, t.TempDir(), "limits: {memory: 16777216}\n")
	defer r.end()
	if _, err := r.manager.Services.Add(t.Context(), spec.Service{Name: "up", Forward: &spec.Forward{Address: "127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	hub := r.data.Tracing()
	full := func() int64 {
		t.Helper()
		for {
			w, err := hub.Watch(trace.Filter{}, trace.All)
			if errors.Is(err, trace.ErrNoMemory) || errors.Is(err, trace.ErrTooMany) {
				return hub.Memory()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
		}
	}
	if n := full(); n > 1<<20 || n < 1<<19 {
		t.Errorf("traces have %d bytes of 1 MiB", n)
	}
	if n := r.services.unpooled.Limit(); n != 1<<20 {
		t.Errorf("forward has %d bytes of 1 MiB", n)
	}
	r.data.SetMemory(64 << 20)
	if n := full(); n > 4<<20 || n < 2<<20 {
		t.Errorf("traces have %d bytes of 4 MiB", n)
	}
	if n := r.services.unpooled.Limit(); n != 4<<20 {
		t.Errorf("forward has %d bytes of 4 MiB", n)
	}
}
