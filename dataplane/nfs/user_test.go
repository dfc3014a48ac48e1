package nfs

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRootRunsAllAsUser runs all tests that don't need root as an ordinary
// user, in a process of its own.
func TestRootRunsAllAsUser(t *testing.T) {
	dir := tempDir(t)
	exe := filepath.Join(dir, "nfs.test")
	copySelf(t, exe)
	work := filepath.Join(dir, "tmp")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(work, Anonymous, Anonymous); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.skip=^(TestRoot|TestPrivileged|Fuzz)", "-test.timeout=120s", "-test.short")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+work)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Anonymous, Gid: Anonymous}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !bytes.Contains(out, []byte("PASS")) || bytes.Contains(out, []byte("no tests to run")) {
		t.Fatalf("unexpected output:\n%s", out)
	}
}

func copySelf(t *testing.T, to string) {
	t.Helper()
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
