package docs_test

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// insideVariable has, in the process inside, the folder of the programs.
const insideVariable = "RDMAD_TEST_DOCS_BIN"

// patience is how long rdmad may take to be ready, and a command to end, before a
// test gives up. It is a bound for hangs and measures nothing.
const patience = 60 * time.Second

// isolate runs the calling test once more, in a process with a network, a /srv
// and a /run of its own. There the printed addresses and paths are free. In that
// process isolate returns the folder with rdmad and rdmactl; outside it returns "".
func isolate(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv(insideVariable); bin != "" {
		prepare(t)
		return bin
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "../cmd/rdmad", "../cmd/rdmactl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.count=1"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), insideVariable+"="+bin)
	cmd.SysProcAttr = namespaces()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in namespaces of its own: %v\n%s", err, out)
	}
	t.Logf("in namespaces of its own:\n%s", out)
	return ""
}

// namespaces are those of the process inside. Its end ends all processes of the pages.
// Without root a user namespace allows them.
func namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	}
	return attr
}

// prepare gives this process, alone in its namespaces, a loopback interface and
// empty folders.
func prepare(t *testing.T) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("namespaces: %v", err)
		}
	}
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	for _, dir := range []string{"/srv", "/run"} {
		must(unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	must(err)
	lo.SetUint16(unix.IFF_UP)
	must(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}

// daemon is a rdmad that a page started.
type daemon struct {
	cmd   *exec.Cmd
	log   strings.Builder // to be read when it has ended
	ended chan error
}

// startDaemon runs a command line and waits until rdmad says that it is ready.
func startDaemon(dir, command string, env []string) (*daemon, error) {
	name := filepath.Join(dir, "notify.socket")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	defer os.Remove(name)
	defer notify.Close()
	d := &daemon{cmd: exec.Command("bash", "-c", "exec "+command)}
	d.cmd.Dir = dir
	d.cmd.Env = append(env, "NOTIFY_SOCKET="+name)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	d.ended = make(chan error, 1)
	go func() {
		d.ended <- d.cmd.Wait()
		notify.Close()
	}()
	if err := notify.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	buf := make([]byte, 64)
	n, err := notify.Read(buf)
	if err == nil && string(buf[:n]) == "READY=1" {
		return d, nil
	}
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.ended
	return nil, fmt.Errorf("%s: not ready: %w\n%s", command, cmp.Or(err, errNotReady), d.log.String())
}

// errNotReady: another message came in place of READY.
var errNotReady = errors.New("sent something else first")

// stop ends rdmad in order.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := <-d.ended; err != nil {
		return fmt.Errorf("rdmad: %w\n%s", err, d.log.String())
	}
	return nil
}
