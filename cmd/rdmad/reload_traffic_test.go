package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/reload"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// busyFile is the file at the start. Capital letters followed by a digit are ports.
const busyFile = `services:
  - {name: test, echo: {}}
  - {name: disk, nfs: {path: DIR/disk, tcp_listen: "127.0.0.1:P1"}}
listeners:
  - {name: steady, provider: softiwarp, address: "127.0.0.1:P2", service: test}
  - {name: files, provider: softiwarp, address: "127.0.0.1:P3", service: disk}
connectors:
  - {name: out, listen: "127.0.0.1:P4", provider: softiwarp, target: "127.0.0.1:P2"}
`

// traffic is a daemon whose every service has callers.
type traffic struct {
	*patient
	ports map[string]string // P1 to P9
	file  string            // in force
	calls sync.WaitGroup
	stop  chan struct{}

	mu     sync.Mutex
	served map[string]int // calls answered, by caller
	tick   sync.Cond
}

func startTraffic(t *testing.T) *traffic {
	dir := t.TempDir()
	for _, name := range []string{"disk", "other"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	b := &traffic{ports: make(map[string]string), stop: make(chan struct{}), served: make(map[string]int)}
	b.tick.L = &b.mu
	for i := range 9 {
		_, port, _ := net.SplitHostPort(keepPort(t))
		b.ports[fmt.Sprintf("P%d", i+1)] = port
	}
	b.file = busyFile
	b.patient = admit(t, dir, b.text(busyFile))
	p := newProvider(t)
	for range 4 {
		b.overRDMA(p, "steady", "127.0.0.1:P2", echo.Program, echo.Version)
		b.overRDMA(p, "files", "127.0.0.1:P3", nfs.Program, nfs.Version)
		b.overTCP("mount", "127.0.0.1:P1", nfs.MountProgram, 3)
		b.overTCP("out", "127.0.0.1:P4", echo.Program, echo.Version)
	}
	t.Cleanup(func() {
		close(b.stop)
		b.calls.Wait()
	})
	return b
}

func (b *traffic) text(file string) string {
	for name, port := range b.ports {
		file = strings.ReplaceAll(file, name, port)
	}
	return file
}

// overRDMA calls until the end. A call that is not answered ends the test, also if its connection
// is drained meanwhile: the client then connects again and repeats the call.
func (b *traffic) overRDMA(p rdmacm.Provider, name, at string, program, version uint32) {
	c, err := rpcrdma.Dial(b.t.Context(), p, b.text(at), rpcrdma.DialConfig{
		MemoryLimit: rpcrdma.MinMemoryLimit, Logger: slog.New(slog.DiscardHandler), Reconnect: &rpcrdma.Reconnect{},
	})
	b.must(err)
	b.caller(name, func(ctx context.Context) error {
		return c.Call(ctx, &rpcrdma.Call{Program: program, Version: version})
	}, func() { c.Close() })
}

// overTCP is overRDMA for a client on TCP, which connects again when its connection has ended.
func (b *traffic) overTCP(name, at string, program, version uint32) {
	dial := func(ctx context.Context) (*rpctcp.Client, error) {
		return rpctcp.Dial(ctx, b.text(at), rpctcp.ClientConfig{})
	}
	c, err := dial(b.t.Context())
	b.must(err)
	b.caller(name, func(ctx context.Context) error {
		for {
			_, err := c.Call(ctx, program, version, 0, nil, nil)
			if err == nil {
				return nil
			}
			c.Close()
			next, refused := dial(ctx)
			if refused != nil {
				return errors.Join(err, refused)
			}
			c = next
		}
	}, func() { c.Close() })
}

func (b *traffic) caller(name string, call func(context.Context) error, end func()) {
	b.calls.Go(func() {
		defer end()
		for {
			select {
			case <-b.stop:
				return
			default:
			}
			if err := call(context.Background()); err != nil {
				b.t.Errorf("a call to %s: %v", name, err)
				return
			}
			b.mu.Lock()
			b.served[name]++
			b.tick.Broadcast()
			b.mu.Unlock()
		}
	})
}

// flows waits until every kind of caller had more answers.
func (b *traffic) flows() {
	b.t.Helper()
	const more = 40
	b.mu.Lock()
	defer b.mu.Unlock()
	want := make(map[string]int)
	for _, name := range []string{"steady", "files", "mount", "out"} {
		want[name] = b.served[name] + more
	}
	for name, n := range want {
		for b.served[name] < n && !b.t.Failed() {
			b.tick.Wait()
		}
	}
}

// state is what operators see, without counters. Times show what was made anew.
func (b *traffic) state() (lines []string) {
	for _, l := range b.manager.Listeners.List() {
		lines = append(lines, fmt.Sprintf("listener %+v %v %s %v %v", l.Spec, l.Origin, l.State, l.Live.Address, l.Live.Since))
	}
	for _, s := range b.manager.Services.List() {
		lines = append(lines, fmt.Sprintf("service %s %+v %v %s %+v", s.Spec.Name, s.Spec.NFS, s.Origin, s.State, s.Live))
	}
	for _, c := range b.manager.Connectors.List() {
		lines = append(lines, fmt.Sprintf("connector %+v %v %s %v %v", c.Spec, c.Origin, c.State, c.Live.Address, c.Live.Since))
	}
	lines = append(lines, fmt.Sprintf("limits %+v %+v %d %+v", b.data.Limits(), b.data.TCPLimits(), b.data.Memory(), b.places.PortLimits()))
	return append(lines, fmt.Sprintf("settings %+v", *b.control.Settings.Resolve(dataplane.ConnKey{Listener: "steady"})))
}

// connections are the ids of the callers' connections. Probes make one call each.
func (b *traffic) connections() (ids []string) {
	for _, c := range b.data.Connections() {
		if c.Stats.Calls > 1 {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// take takes a version of the file under traffic.
func (b *traffic) take(file string) error {
	b.flows()
	p, err := b.prepare(b.t.Context(), b.parse(b.text(file)), time.Minute)
	if err == nil {
		p.Commit()
		b.file = file
		defer p.wait()
	}
	b.flows()
	return err
}

// with is the file in force with a replacement.
func (b *traffic) with(old, next string) string {
	b.t.Helper()
	if !strings.Contains(b.file, old) {
		b.t.Fatalf("the file has no %s:\n%s", old, b.file)
	}
	return strings.Replace(b.file, old, next, 1)
}

// TestReloadUnderTraffic: no reload, good or bad, loses a call. A bad one leaves everything as it
// was, the connections included, and names each cause with its line.
func TestReloadUnderTraffic(t *testing.T) {
	b := startTraffic(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	defer taken.Close()
	b.must(os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o600))
	b.ports["TAKEN"] = strings.TrimPrefix(taken.Addr().String(), "127.0.0.1:")
	bad := []struct {
		name, old, next string
		outside         bool
		want            []string
	}{
		{"listener's port in use", "127.0.0.1:P2\"", "127.0.0.1:TAKEN\"", true,
			[]string{"rdmad.yaml:8: listeners[0].address: address 127.0.0.1:TAKEN is in use; choose another, or end what listens there"}},
		{"service's port in use", "127.0.0.1:P1", "127.0.0.1:TAKEN", true, []string{"rdmad.yaml:6: services[1].nfs.tcp_listen: address 127.0.0.1:TAKEN is in use"}},
		{"connector's port in use", "127.0.0.1:P4", "127.0.0.1:TAKEN", true, []string{"rdmad.yaml:11: connectors[0].listen: address 127.0.0.1:TAKEN is in use"}},
		{"an address that is not here", "127.0.0.1:P3", "192.0.2.1:P3", true, []string{"rdmad.yaml:9: listeners[1].address: can't listen on 192.0.2.1:P3: cannot assign requested address"}},
		{"no such directory", "DIR/disk", "DIR/none/disk", true, []string{"rdmad.yaml:6: services[1].nfs.path: "}},
		{"no directory", "DIR/disk", "DIR/file", true, []string{"rdmad.yaml:6: services[1].nfs.path: "}},
		{"rpcbind for a service twice", "service: test}", "service: test, rpcbind: true}\n  - {name: twice, provider: softiwarp, address: \"127.0.0.1:P8\", service: test, rpcbind: true}", false,
			[]string{"rdmad.yaml:9: listeners[1].rpcbind: program 537002057 version 1 on rdma"}},
		{"everything at once", "connectors:\n", "  - {name: more, provider: softiwarp, address: \"127.0.0.1:TAKEN\", service: gone}\n" +
			"  - {name: good, provider: softiwarp, address: \"127.0.0.1:P7\", service: test}\n" +
			"limits: {connections: 77}\nsettings: {inline: {send_max: 2048}}\nconnectors:\n" +
			"  - {name: second, listen: \"192.0.2.1:P5\", provider: softiwarp, target: \"127.0.0.1:1\"}\n", true,
			[]string{
				"rdmad.yaml:7: services[2].nfs.path: ", "rdmad.yaml:11: listeners[2].address: address 127.0.0.1:TAKEN is in use",
				"rdmad.yaml:16: connectors[0].listen: can't listen on 192.0.2.1:P5",
			}},
	}
	for _, c := range bad {
		state, up := b.state(), b.connections()
		file := b.with(c.old, c.next)
		if c.name == "everything at once" {
			file = strings.Replace(file, "listeners:\n", "  - {name: gone, nfs: {path: DIR/none/at/all}}\nlisteners:\n", 1)
		}
		err := b.take(file)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), b.text(want)) {
				t.Errorf("%s: %v, want %s", c.name, err, b.text(want))
			}
		}
		var lines configfile.Errors
		if !errors.As(err, &lines) || len(lines) != len(c.want) || errors.As(err, new(*reload.OutsideError)) != c.outside {
			t.Errorf("%s: %v", c.name, err)
		}
		if now := b.state(); !slices.Equal(now, state) {
			t.Errorf("%s: changed\n%s\nto\n%s", c.name, strings.Join(state, "\n"), strings.Join(now, "\n"))
		}
		for _, id := range up {
			if now := b.connections(); !slices.Contains(now, id) {
				t.Errorf("%s: connections %s, before %s", c.name, now, up)
			}
		}
	}
	for _, c := range []struct{ name, old, next string }{
		{"limits", "service: test}", "service: test, limits: {connections: 100}}"},
		{"a service with the same addresses", "tcp_listen:", "read_only: true, tcp_listen:"},
		{"another directory", "DIR/disk", "DIR/other"},
		{"every address in place of one", "\"127.0.0.1:P2\", service", "\"0.0.0.0:P2\", service"},
		{"one address in place of every", "0.0.0.0:P2", "127.0.0.1:P2"},
		{"another name", "name: files", "name: renamed"},
		{"a connector at the same address", "target:", "dial_timeout: 3s, target:"},
		{"more", "connectors:\n", "  - {name: more, provider: softiwarp, address: \"127.0.0.1:P5\", service: test}\nconnectors:\n  - {name: second, listen: \"127.0.0.1:P6\", provider: softiwarp, target: \"127.0.0.1:1\"}\n"},
		{"exchanged ports", "127.0.0.1:P5\", service: test}\nconnectors:\n  - {name: second, listen: \"127.0.0.1:P6", "127.0.0.1:P6\", service: test}\nconnectors:\n  - {name: second, listen: \"127.0.0.1:P5"},
		{"global limits", "connectors:\n", "limits: {connections: 500, memory: 512MiB}\nconnectors:\n"},
	} {
		if err := b.take(b.with(c.old, c.next)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := b.take(busyFile); err != nil {
		t.Errorf("back: %v", err)
	}
}
