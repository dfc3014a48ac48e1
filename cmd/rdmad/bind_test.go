package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/loglevel"
)

// An export without the right to read it, tried as an ordinary user even when
// the tests run as root.
func TestUnreadableExport(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "rdmad")
	self := have(os.Executable())(t)
	text := have(os.ReadFile(self))(t)
	for name, content := range map[string]string{
		"rdmad": string(text),
		"c.yaml": `
control: {listen: "127.0.0.1:0"}
metrics: {listen: ""}
services: [{name: data, nfs: {path: srv}}]
`} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755))
	}
	must(t, os.Mkdir(filepath.Join(dir, "srv"), 0))
	cmd := exec.Command(program, "--config", "c.yaml")
	cmd.Dir = dir
	if os.Geteuid() == 0 {
		must(t, os.Chmod(filepath.Dir(dir), 0o755))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("ended with %v, want exit code 2", err)
	}
	if want := "rdmad: c.yaml:4: services[0].nfs.path: open srv: permission denied\n"; stderr.String() != want {
		t.Errorf("said %q, want %q", stderr.String(), want)
	}
}

func TestBindErrorIsShort(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}, "listener a h:1: address already in use"},
		{fmt.Errorf("rpcrdma: listen on h:1: %w", syscall.EADDRNOTAVAIL), "listener a h:1: cannot assign requested address"},
		{&net.OpError{Op: "listen", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "h", Server: "192.0.2.1:53"}}, "listener a h:1: no such host"},
		{errors.New("something else"), "listener a h:1: something else"},
	} {
		if got := bindError("listener a", "h:1", c.err); got.Error() != c.want {
			t.Errorf("%v, want %s", got, c.want)
		}
	}
}

// TestStateIsLockedBeforeItIsRead: another rdmad can't change the state between the look at the
// stored changes and the lock. The start hangs in between, at a certificate that is a pipe.
func TestStateIsLockedBeforeItIsRead(t *testing.T) {
	dir := t.TempDir()
	pipe, key, file := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "c.yaml")
	must(t, syscall.Mkfifo(pipe, 0o600))
	must(t, os.WriteFile(key, nil, 0o600))
	must(t, os.WriteFile(file, fmt.Appendf(nil, `
control: {listen: "127.0.0.1:0", tls: {cert: %q, key: %q, client_ca: %q}}
metrics: {listen: ""}
services: [{name: e, echo: {}}]
state: {path: %q}
`, pipe, key, key, dir), 0o600))
	c := have(config.Load(file, config.Options{}))(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d, err := bind(t.Context(), c, slog.New(slog.DiscardHandler), loglevel.New(loglevel.Setting{}))
		if err == nil || !strings.Contains(err.Error(), "PEM") {
			t.Errorf("ended with %v, not with the empty certificate", err)
		}
		d.close()
		if reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil { // if it ended before it read
			t.Cleanup(func() { reader.Close() })
		}
	}()
	cert := have(os.OpenFile(pipe, os.O_WRONLY, 0))(t) // once it is read
	if s, err := openState(dir); err == nil {
		t.Error("the state is not locked")
		s.close()
	}
	cert.Close()
	<-ended
}

// TestRunningIsKnownByTheLock: the process of an earlier rdmad's number may be any other one. In a
// container it is this one.
func TestRunningIsKnownByTheLock(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "lock"), fmt.Appendln(nil, os.Getpid()), 0o600))
	if isRunning(dir) {
		t.Error("without a lock")
	}
	s := have(openState(dir))(t)
	if !isRunning(dir) {
		t.Error("not with the lock")
	}
	s.close()
	if isRunning(dir) || isRunning(filepath.Join(dir, "none")) {
		t.Error("after the lock, or without a directory")
	}
}

// askedVariable has a process in a PID namespace of its own look at the state directory that it is in.
const askedVariable = "RDMAD_TEST_IS_RUNNING"

func init() {
	if os.Getenv(askedVariable) != "" {
		err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("proc", "/proc", "proc", 0, ""))
		fmt.Println(isRunning("."), err)
		os.Exit(0)
	}
}

// TestRunningInAnotherContainer: the process that has the lock is not among those of this PID namespace.
func TestRunningInAnotherContainer(t *testing.T) {
	dir := t.TempDir()
	s := have(openState(dir))(t)
	defer s.close()
	cmd := exec.Command(have(os.Executable())(t))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), askedVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "true <nil>\n" {
		t.Errorf("it runs: %s, %v", out, err)
	}
}

func TestStateIsPrivateAndLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first := have(openState(dir))(t)
	for _, path := range []string{dir, filepath.Join(dir, "lock")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	want := fmt.Sprintf("state.path: %s is in use by another rdmad (process %d)", dir, os.Getpid())
	if _, err := openState(dir); err == nil || err.Error() != want {
		t.Errorf("opened twice: %v, want %s", err, want)
	}
	first.close()
	second := have(openState(dir))(t)
	second.close()
}
