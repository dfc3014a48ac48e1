package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// running is a daemon in this process.
type running struct {
	*daemon
	t   *testing.T
	dir string
}

// startHere runs a daemon in this process, with one echo listener named steady
// in its file, and its state in dir.
func startHere(t *testing.T, dir, more string) *running {
	t.Helper()
	r := &running{t: t, dir: dir}
	d, err := bind(t.Context(), r.parse(more), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		d.close()
		t.Fatal(err)
	}
	d.start()
	r.daemon = d
	return r
}

// parse gives the configuration with more lines in it.
func (r *running) parse(more string) *config.Config {
	r.t.Helper()
	c, err := config.Parse("rdmad.yaml", []byte(`
control: {listen: "127.0.0.1:0"}
metrics: {listen: ""}
state: {path: `+filepath.Join(r.dir, "state")+`}
services:
  - {name: test, echo: {}}
listeners:
  - {name: steady, provider: softiwarp, address: "127.0.0.1:0", service: test}
`+more), config.Options{Providers: []string{"softiwarp"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// reconfigure takes a new version of the file as a reload does, and waits until what was
// replaced is gone.
func reconfigure(d *daemon, c *config.Config, drain time.Duration) error {
	p, err := d.prepare(context.Background(), c, drain)
	if err != nil {
		return err
	}
	p.Commit()
	p.wait()
	d.health.reloaded(c.File, nil)
	return nil
}

// end stops it in good order.
func (r *running) end() { r.stop(time.Minute) }

func (r *running) removeService(name string) error {
	_, err := r.manager.Services.Remove(r.t.Context(), name, 0)
	return err
}

func (r *running) listener(name string) manager.ListenerInfo {
	r.t.Helper()
	for _, l := range r.manager.Listeners.List() {
		if l.Spec.Name == name {
			return l
		}
	}
	r.t.Fatalf("no listener %s", name)
	panic("unreachable")
}

// addDisk adds an NFS service, over TCP as well, and a listener for it.
func (r *running) addDisk() {
	r.t.Helper()
	makeDirectory(r.t, filepath.Join(r.dir, "disk"))
	_, err := r.manager.Services.Add(r.t.Context(), spec.Service{
		Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: filepath.Join(r.dir, "disk")}, TCPListen: apart},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = r.manager.Listeners.Add(r.t.Context(), spec.Listener{
		Name: "disk", Provider: "softiwarp", Address: apart, Service: "disk",
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// useDisk makes a file over RDMA, and connects over TCP.
func (r *running) useDisk(p rdmacm.Provider, name string) (*rpcrdma.Client, net.Conn) {
	r.t.Helper()
	ctx := r.t.Context()
	rpc := r.dial(p, "disk")
	c := nfstest.FilesOver(rpc, 0, 0)
	root, err := c.Mount(ctx, "/export")
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := c.Create(ctx, root, name); err != nil {
		r.t.Fatal(err)
	}
	nc, err := net.Dial("tcp", r.manager.Services.List()[0].Live.TCP.String()) // disk is the first by name
	if err != nil {
		r.t.Fatal(err)
	}
	return rpc, nc
}

func (r *running) dial(p rdmacm.Provider, name string) *rpcrdma.Client {
	r.t.Helper()
	c := have(rpcrdma.Dial(r.t.Context(), p, r.listener(name).Live.Address.String(), rpcrdma.DialConfig{}))(r.t)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// removeDisk takes away what addDisk added.
func (r *running) removeDisk() {
	r.t.Helper()
	if _, err := r.manager.Listeners.Remove(r.t.Context(), "disk", time.Minute); err != nil {
		r.t.Fatal(err)
	}
	must(r.t, r.removeService("disk"))
}

func newProvider(t *testing.T) rdmacm.Provider {
	t.Helper()
	p := have(softiwarp.New(softiwarp.Config{}))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("provider: %v", err)
		}
	})
	return refereetest.Around(t, p)
}

// openDescriptors lists the files that this process has open under a directory, and
// how many descriptors it has in all.
func openDescriptors(t *testing.T, dir string) (under []string, all int) {
	t.Helper()
	entries := have(os.ReadDir("/proc/self/fd"))(t)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir+"/disk") {
			under = append(under, to)
		}
	}
	return under, len(entries)
}

// awaitEpolls waits until this process has n descriptors of epoll(7): one of Go's runtime, and one
// of each provider, which it opens for its first idle connection.
func awaitEpolls(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(time.Millisecond) {
		have := 0
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == "anon_inode:[eventpoll]" {
				have++
			}
		}
		switch {
		case have >= n:
			return
		case time.Now().After(deadline):
			t.Fatalf("%d descriptors of epoll, want %d", have, n)
		}
	}
}

// TestExportsComeAndGo adds and removes an NFS service with its listeners
// while another listener's client makes calls: none is lost, and no descriptor
// is left.
func TestExportsComeAndGo(t *testing.T) {
	const rounds = 5
	p := newProvider(t)
	r := startHere(t, t.TempDir(), "")
	defer r.end()
	steady := r.dial(p, "steady")
	must(t, steady.Call(t.Context(), echoCall(nil)))
	awaitEpolls(t, 3)
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := steady.Call(t.Context(), echoCall([]byte("hello"))); err != nil {
				ended <- err
				return
			}
		}
	}()
	_, before := openDescriptors(t, r.dir)
	for i := range rounds {
		r.addDisk()
		c, nc := r.useDisk(p, "file"+string(rune('a'+i)))
		if under, _ := openDescriptors(t, r.dir); len(under) == 0 {
			t.Error("an export that has nothing open?")
		}
		var used *manager.InUseError
		if err := r.removeService("disk"); !errors.As(err, &used) {
			t.Errorf("removed in use: %v", err)
		}
		r.removeDisk()
		<-c.Done()
		c.Close()
		nc.Close()
		if under, _ := openDescriptors(t, r.dir); len(under) != 0 {
			t.Errorf("still open: %v", under)
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Errorf("a call on the other listener: %v", err)
	}
	if l := r.listener("steady"); l.Live.Connections != 1 || l.Live.Accepted != 1 {
		t.Errorf("the other listener: %+v", l.Live)
	}
	// Sockets linger until their peers have closed.
	after := before + 1
	for deadline := time.Now().Add(startTimeout); after > before && time.Now().Before(deadline); {
		_, after = openDescriptors(t, r.dir)
	}
	if after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if files, err := os.ReadDir(filepath.Join(r.dir, "disk")); err != nil || len(files) != rounds {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestAdditionsComeBack: with their port, their limits, and the handles that
// clients know.
func TestAdditionsComeBack(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t)
	r := startHere(t, dir, "")
	r.addDisk()
	before := r.listener("disk")
	deny := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	if _, _, err := r.manager.Listeners.Update(t.Context(), "disk", func(l *spec.Listener) { l.Deny, l.Limits.Connections = deny, 3 }, manager.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	rpc := r.dial(p, "disk")
	root := have(nfstest.FilesOver(rpc, 0, 0).Mount(t.Context(), "/export"))(t)
	r.end()
	r = startHere(t, dir, "")
	defer r.end()
	after := r.listener("disk")
	if after.Live.Address != before.Live.Address || after.Live.Limits.Connections != 3 || len(after.Live.Access.Deny) != 1 || after.Origin != manager.FromOperator {
		t.Errorf("came back as %+v", after)
	}
	if _, err := nfstest.FilesOver(r.dial(p, "disk"), 0, 0).Create(t.Context(), root, "late"); err != nil {
		t.Errorf("a handle from before: %v", err)
	}
}

// TestChangesComeBack: limits, and what was changed of the file's listeners, are in force from
// the start. An element that can't be had so does not keep rdmad from starting.
func TestChangesComeBack(t *testing.T) {
	dir := t.TempDir()
	const file = `connectors:
  - {name: out, listen: "127.0.0.1:0", provider: softiwarp, target: "127.0.0.1:1"}
limits: {memory: 64MiB, connections: 100}
`
	r := startHere(t, dir, file)
	deny := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	_, _, err := r.manager.Listeners.Update(t.Context(), "steady", func(l *spec.Listener) { l.Deny = deny }, manager.UpdateOptions{})
	if err == nil {
		_, _, err = r.manager.Connectors.Update(t.Context(), "out", func(c *spec.Connector) { c.Target = "127.0.0.1:2" }, manager.UpdateOptions{})
	}
	if err == nil {
		_, _, err = r.manager.Limits.Set(t.Context(), func(l *spec.Limits) { l.Memory, l.Control.Connections, l.TCPIdle = 128<<20, 40, time.Minute }, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, connections int) {
		t.Helper()
		l := r.data.Limits()
		if l.Connections != connections || r.data.Memory() != 128<<20 || r.data.TCPLimits().Idle != time.Minute || r.places.PortLimits().Control.Connections != 40 {
			t.Errorf("%s: limits %+v, %d, %+v, %+v", when, l, r.data.Memory(), r.data.TCPLimits(), r.places.PortLimits())
		}
		if m := r.memory.Limit(); m.Source != "operator" || m.Bytes != 128<<20 {
			t.Errorf("%s: memory %+v", when, m)
		}
		if l := r.listener("steady"); len(l.Live.Access.Deny) != 1 || l.Origin != manager.FromFile {
			t.Errorf("%s: %+v", when, l)
		}
		if c := r.manager.Connectors.List()[0]; c.Live.Target != "127.0.0.1:2" {
			t.Errorf("%s: %+v", when, c)
		}
	}
	check("set", 100)
	must(t, reconfigure(r.daemon, r.parse(strings.Replace(file, "100", "200", 1)), time.Minute))
	check("after a reload", 200)
	r.end()
	r = startHere(t, dir, file)
	check("after a restart", 100)
	r.end()
	taken := have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	store := manager.NewFile(filepath.Join(dir, "state", "listeners.json"))
	all, err := store.Load()
	if err == nil {
		all.Changed.Listeners["steady"]["address"] = taken.Addr().String()
		err = store.Save(all)
	}
	if err != nil {
		t.Fatal(err)
	}
	r = startHere(t, dir, file)
	defer r.end()
	if l := r.listener("steady"); l.State != manager.StateFailed || !strings.Contains(l.Failure, "in use") {
		t.Errorf("with its address in use: %+v", l)
	}
	_, _, err = r.manager.Limits.Set(t.Context(), func(*spec.Limits) {}, func(*spec.Field) bool { return true })
	must(t, err)
	if m := r.memory.Limit(); r.data.Memory() != 64<<20 || m.Source != "limits.memory" {
		t.Errorf("unset: %d, %+v", r.data.Memory(), m)
	}
}

// TestMissingDirectoryIsNotMadeAgain: clients of an export whose file system
// isn't mounted must not find an empty one in its place.
func TestMissingDirectoryIsNotMadeAgain(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	r.addDisk()
	r.end()
	disk, away := filepath.Join(dir, "disk"), filepath.Join(dir, "away")
	must(t, os.Rename(disk, away))
	r = startHere(t, dir, "")
	for _, s := range r.manager.Services.List() {
		if s.Spec.Name == "disk" && (s.State != manager.StateFailed || !strings.Contains(s.Failure, "mount the file system")) {
			t.Errorf("came back as %+v", s)
		}
	}
	if _, err := os.Stat(disk); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
	r.end()
	must(t, os.Rename(away, disk))
	r = startHere(t, dir, "")
	defer r.end()
	if l := r.listener("disk"); l.State != dataplane.StateUp {
		t.Errorf("with its directory: %+v", l)
	}
}

// TestBadAdditionsKeepRdmadFromStarting, in one line, and stay as they are.
func TestBadAdditionsKeepRdmadFromStarting(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state", "listeners.json")
	must(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	must(t, os.WriteFile(file, []byte(`{"format": 7}`), 0o600))
	r := &running{t: t, dir: dir}
	d, err := bind(t.Context(), r.parse(""), slog.New(slog.DiscardHandler), nil)
	d.close()
	want := "services and listeners added before: " + file + ": has format 7, and this rdmad knows format 2; " +
		"restore it, or move it away to start without what was added"
	if err == nil || err.Error() != want {
		t.Errorf("said %v, want %s", err, want)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != `{"format": 7}` {
		t.Errorf("left %q, %v", b, err)
	}
}

// TestFileChangesListeners takes a new version of the file.
func TestFileChangesListeners(t *testing.T) {
	p := newProvider(t)
	r := startHere(t, t.TempDir(), "")
	defer r.end()
	steady := r.dial(p, "steady")
	must(t, steady.Call(t.Context(), echoCall(nil)))
	err := reconfigure(r.daemon, r.parse(`  - {name: second, provider: softiwarp, address: "127.0.0.1:0", service: test, deny: ["127.0.0.0/8"]}
limits: {connections: 7, memory: 67108864}
`), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if l := r.data.Limits(); l.Connections != 7 || r.data.Memory() != 64<<20 {
		t.Errorf("limits %+v, memory %d", l, r.data.Memory())
	}
	if c, err := rpcrdma.Dial(t.Context(), p, r.listener("second").Live.Address.String(), rpcrdma.DialConfig{}); err == nil {
		c.Close()
		t.Error("who is denied came in")
	}
	must(t, reconfigure(r.daemon, r.parse(""), time.Minute))
	if n := len(r.manager.Listeners.List()); n != 1 || r.data.Limits().Connections != dataplane.DefaultMaxConnections || r.data.Memory() != dataplane.DefaultMemory {
		t.Errorf("%d listeners, limits %+v, memory %d", n, r.data.Limits(), r.data.Memory())
	}
	if err := steady.Call(t.Context(), echoCall(nil)); err != nil {
		t.Errorf("the one that did not change: %v", err)
	}
}

// TestFileChangesSlowCall: a new version of the file sets another limit of slow calls, or none.
func TestFileChangesSlowCall(t *testing.T) {
	r := startHere(t, t.TempDir(), "slow_call: 300ms\n")
	defer r.end()
	if got := r.data.SlowCalls().Limit; got != 300*time.Millisecond {
		t.Errorf("at the start: %v", got)
	}
	for _, c := range []struct {
		text string
		want time.Duration
	}{{"slow_call: 300ms\n", 300 * time.Millisecond}, {"slow_call: 2s\n", 2 * time.Second}, {"", 0}} {
		must(t, reconfigure(r.daemon, r.parse(c.text), time.Minute))
		if got := r.data.SlowCalls().Limit; got != c.want {
			t.Errorf("%q: %v", c.text, got)
		}
	}
}

// TestRemoveWhatTheFileNeeds: a listener that operators added stays while the configuration file gives
// settings for it. Without the listener, rdmad would not start with this file.
func TestRemoveWhatTheFileNeeds(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	l := r.listener("steady").Spec
	l.Name, l.Address = "lab", "127.0.0.1:0"
	have(r.manager.Listeners.Add(t.Context(), l))(t)
	plain := r.parse("")
	r.end()
	parse := func() (*config.Config, error) {
		return config.Parse("rdmad.yaml", []byte(`control: {listen: "127.0.0.1:0"}
metrics: {listen: ""}
state: {path: `+filepath.Join(dir, "state")+`}
services: [{name: test, echo: {}}]
listeners: [{name: steady, provider: softiwarp, address: "127.0.0.1:0", service: test}]
scopes:
  listener/lab: {credits: {weight: 3}}
`), config.Options{Providers: []string{"softiwarp"}, Stored: storedListeners})
	}
	d := have(bind(t.Context(), have(parse())(t), slog.New(slog.DiscardHandler), nil))(t)
	d.start()
	defer d.stop(time.Minute)
	const want = "rdmad.yaml:7 gives settings for listener/lab: without it, rdmad would not start; remove these settings first, and reload the file"
	_, err := d.manager.Listeners.Remove(t.Context(), "lab", 0)
	if err == nil || err.Error() != want {
		t.Errorf("removed: %v, want %s", err, want)
	}
	if _, err := parse(); err != nil {
		t.Errorf("the next start: %v", err)
	}
	_, err = importedInto(t, d, "x.yaml", `listeners: [{name: steady, provider: softiwarp, address: "127.0.0.1:0", service: test}]`, false)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("imported: %v", err)
	}
	needs := have(parse())(t)
	must(t, reconfigure(d, plain, time.Minute))
	if _, err := d.manager.Listeners.Remove(t.Context(), "lab", 0); err != nil {
		t.Error(err)
	}
	err = reconfigure(d, needs, time.Minute) // which was loaded before
	if err == nil || !strings.HasSuffix(err.Error(), `there is no listener or connector "lab"`) {
		t.Errorf("reloaded: %v", err)
	}
	must(t, reconfigure(d, plain, time.Minute))
}
