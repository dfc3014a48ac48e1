package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

const (
	// mountTime covers the kernel's own patience with a server, some times over.
	mountTime = 5 * time.Minute
	// clientTime bounds one script on a mount, under emulation on a busy machine.
	clientTime = 6 * time.Minute
)

// mount is the guest's kernel client with a server's export on a directory.
type mount struct {
	g      *guest.Guest
	server nfsServer
	via    transport
	dir    string // in the guest
	gone   bool   // unmounted by detach
}

// rdmad returns the rdmad over whose RDMA connections the mount's calls go, or
// nil.
func (m *mount) rdmad() *rdmad {
	switch s := m.server.(type) {
	case *rdmad:
		if m.via == overRDMA {
			return s
		}
	case *exported:
		return s.r
	}
	return nil
}

// newMount mounts the export and unmounts it when the test has ended.
func newMount(t testing.TB, g *guest.Guest, server nfsServer, via transport) *mount {
	t.Helper()
	return newMountAt(t, g, server, via, "/mnt/"+string(via))
}

// newMountAt is newMount on a given directory in the guest.
func newMountAt(t testing.TB, g *guest.Guest, server nfsServer, via transport, dir string) *mount {
	t.Helper()
	m := &mount{g: g, server: server, via: via, dir: dir}
	m.attach(t)
	t.Cleanup(func() {
		if m.gone {
			return
		}
		// Lazily, so that a client stuck on one failed test does not hang
		// the next one. A test that failed may have unmounted already.
		ctx, cancel := context.WithTimeout(context.Background(), mountTime)
		defer cancel()
		result, err := g.Run(ctx, "umount -f -l "+m.dir)
		if !t.Failed() && (err != nil || result.Code != 0) {
			t.Errorf("unmounting: code %d, error %v: %s", result.Code, err, result.Stderr)
		}
	})
	return m
}

func (m *mount) attach(t testing.TB) {
	t.Helper()
	source, options := m.server.mountArgs(m.via)
	m.g.MustRun(t, mountTime, fmt.Sprintf("mkdir -p %s && mount.nfs %s %s -o %s", m.dir, source, m.dir, options))
	m.gone = false
}

// detach unmounts in order: the client writes everything back.
func (m *mount) detach(t testing.TB) {
	t.Helper()
	m.g.MustRun(t, clientTime, "umount "+m.dir)
	m.gone = true
}

// refetch makes the client forget what it has cached of data and names.
func (m *mount) refetch(t testing.TB) {
	t.Helper()
	m.g.MustRun(t, clientTime, "sync; echo 3 >/proc/sys/vm/drop_caches")
}

// mustRespond ends the test unless the server still answers the client.
func (m *mount) mustRespond(t testing.TB) {
	t.Helper()
	m.g.MustRun(t, mountTime, "echo 3 >/proc/sys/vm/drop_caches; stat "+m.dir)
}

// client runs a script in the export's directory.
func (m *mount) client(t testing.TB, script string) string {
	t.Helper()
	return m.g.MustRun(t, clientTime, "set -e; cd "+m.dir+"\n"+script)
}

// work is a directory of a mount in which one test works.
type work struct {
	*mount
	name string
}

// work makes a new directory, for one test.
func (m *mount) work(t *testing.T, name string) *work {
	t.Helper()
	m.client(t, "mkdir "+name)
	return &work{m, name}
}

// path is the directory's path in the guest.
func (w *work) path() string { return w.dir + "/" + w.name }

// client runs a script in the directory, as the kernel's client sees it, and
// returns what it printed.
func (w *work) client(t *testing.T, script string) string {
	t.Helper()
	return w.g.MustRun(t, clientTime, "set -e; cd "+w.path()+"\n"+script)
}

// talking runs a script in the directory that takes as long as it takes, but
// prints something at least once in clientTime.
func (w *work) talking(t *testing.T, script string) {
	t.Helper()
	script = "set -e; cd " + w.path() + "\n" + script
	if got, err := w.g.RunTalking(t.Context(), clientTime, script); err != nil || got.Code != 0 {
		t.Fatalf("in the guest: exit code %d, error %v\nscript:\n%s\nend of stdout:\n%s\nstderr:\n%s",
			got.Code, err, script, got.Stdout[max(0, len(got.Stdout)-4096):], got.Stderr)
	}
}

// serverSide runs a script in the directory, as the server sees it.
func (w *work) serverSide(t *testing.T, script string) string {
	t.Helper()
	return w.server.shell(t, "cd "+w.name+"\n"+script)
}

// same compares the output of two sides.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot\n%.2000s\nwant\n%.2000s", what, got, want)
	}
}
