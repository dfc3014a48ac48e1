package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/interop/guest"
)

// buildLocker builds the program locker into the directory that the guest has
// as /host.
func buildLocker(t testing.TB, g *guest.Guest) {
	t.Helper()
	defer guest.Busy()()
	cmd := exec.Command("go", "build", "-o", filepath.Join(g.ShareDir, "locker"), "./cmd/locker")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// held is a lock on a range of a file.
type held struct {
	cmd *guest.Command
}

// startLock starts to wait for a lock of n bytes at an offset.
func (m *mount) startLock(t testing.TB, file string, offset, n int) held {
	t.Helper()
	return held{startScript(t, m.g, fmt.Sprintf("exec /host/locker hold %s/%s %d %d", m.dir, file, offset, n))}
}

// wait waits until the lock is granted.
func (h held) wait(t testing.TB) held {
	t.Helper()
	ctx, cancel := limit(t, clientTime)
	defer cancel()
	if err := h.cmd.Watch(ctx, func(s string) bool { return s == "locked\n" }); err != nil {
		t.Fatal(err)
	}
	return h
}

// has reports whether the lock is granted.
func (h held) has() bool {
	stdout, _ := h.cmd.Output()
	return stdout != ""
}

// release kills the process that holds the lock, which releases the lock.
func (h held) release(t testing.TB) {
	t.Helper()
	h.cmd.Kill()
	if got := ended(t, h.cmd); got.Code != 128+int(unix.SIGKILL) {
		t.Errorf("the process that held a lock had ended before: code %d: %s", got.Code, got.Stderr)
	}
}

// tryLock reports whether a range can be locked now.
func (m *mount) tryLock(t testing.TB, file string, offset, n int) bool {
	t.Helper()
	out := m.g.MustRun(t, clientTime, fmt.Sprintf("/host/locker try %s/%s %d %d", m.dir, file, offset, n))
	return strings.TrimSpace(out) == "locked"
}

// other mounts the server's export for another client of it: mounts of
// different minor versions have nothing in common.
func (gw *gateway) other(t *testing.T, m *mount) *mount {
	t.Helper()
	version := "4.1"
	if m.version() == version {
		version = "4.0"
	}
	return gw.mount(t, version, "/mnt/other")
}

// locks takes locks on one file as two clients of the server.
func (gw *gateway) locks(t *testing.T, m *mount) { testLocks(t, m, gw.other(t, m)) }

func testLocks(t *testing.T, m, other *mount) {
	file := "locked-" + m.version()
	m.client(t, "head -c 1000 /dev/zero >"+file)
	first := m.startLock(t, file, 0, 100).wait(t)
	for _, c := range []struct {
		offset, n int
		free      bool
	}{{0, 1, false}, {99, 1, false}, {50, 500, false}, {100, 900, true}, {0, 0, false}} {
		if got := other.tryLock(t, file, c.offset, c.n); got != c.free {
			t.Errorf("bytes %d+%d can be locked by another client: %v, want %v", c.offset, c.n, got, c.free)
		}
	}
	beside := other.startLock(t, file, 500, 100).wait(t)
	waiting := other.startLock(t, file, 0, 10)
	if m.tryLock(t, file, 599, 1) {
		t.Error("byte 599 can be locked while another client has 500+100")
	}
	if waiting.has() {
		t.Error("another client has locked bytes 0+10 of the first one's 0+100")
	}
	first.release(t)
	waiting.wait(t)
	waiting.release(t)
	beside.release(t)
	if !m.tryLock(t, file, 0, 0) {
		t.Error("the file is locked after all locks were given back")
	}
}
