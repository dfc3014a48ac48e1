package main

import (
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestTCPMemoryFollows: services on TCP have their part of limits.memory, also after
// it has changed.
func TestTCPMemoryFollows(t *testing.T) {
	r := startHere(t, t.TempDir(), "limits: {memory: 1073741824}\n")
	defer r.end()
	r.addDisk()
	want := func(memory int64) {
		t.Helper()
		servers := 0
		for _, sv := range r.services.all {
			if tcp := sv.tcp.Load(); tcp != nil {
				servers++
				if got := tcp.MemoryLimit(); got != int(memory/16) {
					t.Errorf("of %d bytes %s on TCP has %d", memory, sv.spec.Name, got)
				}
			}
		}
		if servers != 1 {
			t.Errorf("%d services on TCP", servers)
		}
	}
	want(1 << 30)
	r.data.SetMemory(512 << 20)
	want(512 << 20)
}

// TestTCPMemoryOfANewService: a service that a reload makes has its part of the limit of the same
// version of the file, not of the limit before.
func TestTCPMemoryOfANewService(t *testing.T) {
	r := startHere(t, t.TempDir(), "limits: {memory: 1073741824}\n")
	defer r.end()
	for _, memory := range []int{512 << 20, 2 << 30} {
		next := r.parse(fmt.Sprintf("limits: {memory: %d}\n", memory))
		next.Services = append(next.Services, spec.Service{Name: "disk", NFS: &spec.NFS{
			Export: spec.Export{Path: t.TempDir()}, TCPListen: apart,
		}})
		must(t, reconfigure(r.daemon, next, 0))
		if got := r.services.all["disk"].tcp.Load().MemoryLimit(); got != memory/16 {
			t.Errorf("of %d bytes the new service has %d", memory, got)
		}
	}
}

// TestTCPMemoryOfTheReplaced: a service that a change has replaced, and that finishes its calls, follows the limit.
func TestTCPMemoryOfTheReplaced(t *testing.T) {
	old := new(service)
	old.tcp.Store(rpctcp.NewServer(rpctcp.Config{Handler: echo.New(), MemoryLimit: 64 << 20}))
	defer old.tcp.Load().Close()
	s := services{memory: func() procmem.Limit { return procmem.Limit{Bytes: 512 << 20} }, replaced: []*service{old}}
	s.shareMemory()
	if got := old.tcp.Load().MemoryLimit(); got != 32<<20 {
		t.Errorf("%d bytes", got)
	}
}
