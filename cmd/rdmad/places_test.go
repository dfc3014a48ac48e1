package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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
	p := have(newPlaces(config.Default(""), slog.New(slog.DiscardHandler)))(t)
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

// PortLimits returns the limits of rdmad's own ports.
func (p *places) PortLimits() port.OwnLimits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits
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
	shareDescriptors(t, "a", "b")
}

// TestReplacedExportsShareDescriptors: an export that another replaces has its part until it is
// closed.
func TestReplacedExportsShareDescriptors(t *testing.T) { shareDescriptors(t, "a", "a") }

// shareDescriptors starts two services, and then closes one after the other.
func shareDescriptors(t *testing.T, names ...string) {
	t.Helper()
	var of []int
	s := &services{
		log: slog.New(slog.DiscardHandler), state: func(string) string { return "" }, files: func() int { return 100 },
		memory: func() procmem.Limit { return procmem.Limit{} }, all: make(map[string]*service),
	}
	var opened []manager.Service
	for _, name := range names {
		dir := filepath.Join(t.TempDir(), name)
		must(t, os.Mkdir(dir, 0o755))
		sv := have(s.make(t.Context(), &spec.Service{Name: name, NFS: &spec.NFS{Export: spec.Export{Path: dir}}}, "", s.openNFS))(t)
		must(t, sv.Open(t.Context()))
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

// TestDescriptorsOfConnections: a configuration has as many connections as its providers,
// services and connectors allow.
func TestDescriptorsOfConnections(t *testing.T) {
	nfs := []spec.Service{{Name: "s", NFS: new(spec.NFS)}}
	forward := []spec.Service{{Name: "s", Forward: new(spec.Forward)}, {Name: "unused", Echo: new(spec.Echo)}}
	listener := []spec.Listener{{Name: "l", Provider: "softiwarp", Service: "s"}}
	for _, c := range []struct {
		name string
		all  spec.All
		want needs
	}{
		{"nfs", spec.All{Services: nfs, Listeners: listener}, needs{2, 1}},
		{"forward", spec.All{Services: forward, Listeners: listener}, needs{3, 2}},
		{"forward without a listener", spec.All{Services: forward}, needs{2, 1}},
		{"connector", spec.All{Services: nfs, Listeners: listener, Connectors: []spec.Connector{{Name: "c", Provider: "softiwarp"}}}, needs{3, 2}},
	} {
		if got := needsOf(&config.Config{All: c.all}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestServiceChangesDescriptors: a listener whose service becomes forward has fewer connections,
// and more again when it gets its service back. The log has the limit that can't be reached.
func TestServiceChangesDescriptors(t *testing.T) {
	r := startHere(t, t.TempDir(), "")
	defer r.end()
	p := r.places
	var log bytes.Buffer // under p.mu
	p.mu.Lock()
	p.log, p.budget.Limit = slog.New(slog.NewTextHandler(&log, nil)), 20000
	p.mu.Unlock()
	_, _, err := r.manager.Limits.Set(t.Context(), func(l *spec.Limits) { l.Connections = 10000 }, nil)
	must(t, err)
	give := func(service string) {
		t.Helper()
		if _, _, err := r.manager.Listeners.Update(t.Context(), "steady", func(l *spec.Listener) { l.Service = service }, manager.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// check waits until a listener that was replaced is gone.
	check := func(what string, connections int) {
		t.Helper()
		b, began := p.divided(), time.Now()
		for ; b.Connections() != connections; b = p.divided() {
			if runtime.Gosched(); time.Since(began) > time.Minute {
				t.Fatalf("%s: %d connections, want %d", what, b.Connections(), connections)
			}
		}
		if few := connections < 10000; (len(b.Unreachable) > 0) != few {
			t.Errorf("%s: unreachable %q", what, b.Unreachable)
		}
	}
	if _, err := r.manager.Services.Add(t.Context(), spec.Service{Name: "up", Forward: &spec.Forward{Address: "127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	check("echo", 10092)
	give("up")
	check("forward", 5046)
	give("test")
	check("echo again", 10092)
	p.mu.Lock()
	defer p.mu.Unlock()
	want := "limits.connections: 10000 can't be reached, 5046 of 2 files each can: only 20000 files may be open"
	if n := strings.Count(log.String(), want); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}
