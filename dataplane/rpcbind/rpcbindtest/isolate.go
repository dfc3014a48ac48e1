package rpcbindtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// rootVariable tells the process inside which root rpcbind is in.
const rootVariable = "RDMAD_TEST_RPCBIND_ROOT"

// Host is a machine of its own, from rpcbind's point of view.
type Host struct {
	root string // what rpcbind and rpcinfo see as /
}

// Isolate runs the calling test, which must not be a subtest, in a process of its own, and then
// returns nil: the caller returns. Within that process it returns the Host for the test.
func Isolate(t *testing.T) *Host {
	t.Helper()
	if root := os.Getenv(rootVariable); root != "" {
		h := &Host{root: root}
		h.prepare(t)
		return h
	}
	if os.Geteuid() != 0 {
		leaveOut(t, "needs root for namespaces and for rpcbind")
	}
	root, err := findRoot(t)
	if err != nil {
		leaveOut(t, err.Error())
	}
	runInside(t, root)
	return nil
}

// leaveOut skips the test, or fails it where that is not allowed.
func leaveOut(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// runInside runs the test in namespaces of its own.
func runInside(t *testing.T, root string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), rootVariable+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in namespaces of its own: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Fatalf("in namespaces of its own the test did not pass:\n%s", out)
	}
	t.Logf("in namespaces of its own:\n%s", out)
}

// prepare gives this process, alone in its namespaces, a /run and a loopback
// interface.
func (h *Host) prepare(t *testing.T) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("namespaces: %v", err)
		}
	}
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"))
	if h.root != "/" {
		must(unix.Mount("/run", filepath.Join(h.root, "run"), "", unix.MS_BIND, ""))
		must(os.WriteFile(users, fmt.Appendf(nil, "root:x:0:0::/:\n%s:x:%d:%d::/run/rpcbind:\n", userName, userID, nogroup), 0o644))
	}
	uid, gid, err := h.user()
	must(err)
	must(os.Mkdir("/run/rpcbind", 0o755)) // as its tmpfiles.d says
	must(os.Chown("/run/rpcbind", uid, gid))
	must(LoopbackUp())
}

// LoopbackUp turns the interface lo of this thread's network on.
func LoopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// fields returns the lines of text, each split at its spaces.
func fields(text []byte) [][]string {
	var out [][]string
	for line := range bytes.Lines(text) {
		if f := strings.Fields(string(line)); len(f) > 0 {
			out = append(out, f)
		}
	}
	return out
}
