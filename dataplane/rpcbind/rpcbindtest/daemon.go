package rpcbindtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/child"
)

// startTimeout is how long rpcbind may take to be ready before a test gives
// up; it is a bound for hangs and measures nothing.
const startTimeout = 30 * time.Second

var started atomic.Int32

// Daemon is an rpcbind that was started.
type Daemon struct{ *child.Process }

// Start runs rpcbind and waits until it is ready. With -w, rpcbind keeps its registrations from
// Stop to the next start. It ends with the test.
func (h *Host) Start(t *testing.T, args ...string) *Daemon {
	t.Helper()
	// What a service manager listens on; a name without a file.
	name := fmt.Sprintf("@rpcbindtest-%d-%d", os.Getpid(), started.Add(1))
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer notify.Close()
	cmd := h.command(t, rpcbindPaths, append([]string{"-f"}, args...))
	cmd.Env = []string{"NOTIFY_SOCKET=" + name}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-p.Done()
		notify.Close()
	}()
	t.Cleanup(p.Kill)
	if err := notify.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := notify.Read(buf)
	if told := string(buf[:n]); err != nil || told != "READY=1" {
		p.Kill()
		t.Fatalf("rpcbind is not ready: %v, %q\n%s", err, told, out.String())
	}
	return &Daemon{p}
}

// Stop ends rpcbind as a service manager does, so that it can keep its registrations.
// Kill ends it at once, so that it loses them.
func (d *Daemon) Stop() {
	d.Signal(syscall.SIGTERM)
	<-d.Done()
}

// Registered lists the output of rpcinfo without rpcbind itself, each entry as "program version
// netid address owner".
func (h *Host) Registered(t *testing.T) []string {
	t.Helper()
	var out []string
	for i, f := range fields([]byte(h.Info(t))) {
		// program version netid address service owner
		if i == 0 || len(f) != 6 || f[0] == "100000" {
			continue
		}
		out = append(out, strings.Join(append(f[:4:4], f[5]), " "))
	}
	return out
}

// Info returns the output of rpcinfo.
func (h *Host) Info(t *testing.T, args ...string) string {
	t.Helper()
	cmd := h.command(t, rpcinfoPaths, args)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("rpcinfo %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// command is a program in the root.
func (h *Host) command(t *testing.T, paths, args []string) *exec.Cmd {
	t.Helper()
	path, err := program(h.root, paths)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: h.root}
	return cmd
}
