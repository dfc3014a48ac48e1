package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// testPlaces are the places of a process that may open so many files, with the
// default configuration.
func testPlaces(t *testing.T, files int) *places {
	t.Helper()
	p, err := newPlaces(config.Default(""), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.data = dataplane.New(dataplane.Config{})
	t.Cleanup(func() {
		if err := p.data.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	p.budget.Limit = files
	p.limit(new(spec.Limits))
	return p
}

// TestPortLimitsAreLive: limits apply when they are set, bounded by the descriptors, and none
// is taken from other uses.
func TestPortLimitsAreLive(t *testing.T) {
	p := testPlaces(t, 65536)
	want := port.OwnLimits{
		Control: port.Limits{Connections: 512, Reserved: 7, Idle: time.Hour}, Metrics: port.Limits{Connections: 12},
	}
	l := spec.Limits{Control: want.Control, Metrics: want.Metrics}
	err := p.mayLimit(&l)
	if p.limit(&l); err != nil || p.PortLimits() != want {
		t.Errorf("%+v, %v", p.PortLimits(), err)
	}
	if l := p.clients.Clients.Limits(); l.Total != 512 || l.PerKey != 64 || l.Reserved != 7 || l.Idle != time.Hour {
		t.Errorf("control: %+v", l)
	}
	if l := p.scrapers.Limits(); l.Total != 12 || l.PerKey != 3 {
		t.Errorf("metrics: %+v", l)
	}
	if b := p.divided(); len(b.Unreachable) != 0 {
		t.Errorf("%q", b.Unreachable)
	}
}

// TestFewDescriptors: every port keeps places for more than one peer.
func TestFewDescriptors(t *testing.T) {
	for _, files := range []int{152, 256, 1024} {
		p := testPlaces(t, files)
		b := p.divided()
		if c, s := p.clients.Clients.Limits(), p.scrapers.Limits(); c.Total != b.ControlClients() || c.PerKey > max(c.Total/2, 1) || c.Reserved < 1 ||
			s.Total != b.Scrapers() || s.PerKey > max(s.Total/4, 1) {
			t.Errorf("%d files: %+v and %+v of %+v", files, c, s, b)
		}
		if tcp := p.data.TCPPlaces().Limits(); tcp.Total != b.TCP || tcp.PerKey > b.TCP/4 {
			t.Errorf("%d files: TCP %+v of %+v", files, tcp, b)
		}
		if len(b.Unreachable) != 4 {
			t.Errorf("%d files: %q", files, b.Unreachable)
		}
	}
}

// TestExportsShareDescriptors: two exports have half of what files may have, and
// the one that stays has all.
func TestExportsShareDescriptors(t *testing.T) {
	var of []int
	s := &services{
		log: slog.New(slog.DiscardHandler), state: func(string) string { return "" }, files: func() int { return 100 },
		memory: func() procmem.Limit { return procmem.Limit{} }, all: make(map[string]*service),
	}
	var opened []manager.Service
	for _, name := range []string{"a", "b"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		sv, err := s.make(t.Context(), &spec.Service{Name: name, NFS: &spec.NFS{Export: spec.Export{Path: dir}}}, "", s.openNFS)
		if err != nil {
			t.Fatal(err)
		}
		if err := sv.Open(); err != nil {
			t.Fatal(err)
		}
		sv.Start()
		opened = append(opened, sv)
		of = append(of, opened[0].(*service).nfs.MaxOpenFiles())
	}
	if err := opened[1].Close(); err != nil {
		t.Error(err)
	}
	of = append(of, opened[0].(*service).nfs.MaxOpenFiles())
	if of[0] != 100 || of[1] != 50 || of[2] != 100 {
		t.Errorf("the first export had %v", of)
	}
	if err := opened[0].Close(); err != nil {
		t.Error(err)
	}
}
