package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/interop/guest"
)

const (
	// readyTime bounds how long rdmad may take to start on a busy machine.
	readyTime = 5 * time.Minute
	// stopTime bounds how long it may take to stop.
	stopTime = 3 * time.Minute
	// witnessTime bounds how long a program may take to print its stacks.
	witnessTime = 10 * time.Second
)

// rdmad is an rdmad on the host that exports a directory by NFS, over
// soft-iWARP and over TCP, on ports of its own that survive a restart.
type rdmad struct {
	program, rdmactl string
	dir              string              // export, state and configuration
	shareDir         string              // what the guest has as /host
	config           func(*rdmad) string // the text of its configuration
	control          string              // address of the control plane
	rdma, tcp        string              // addresses of the export

	process *child.Daemon
}

// startRdmad starts an rdmad that exports a directory.
func startRdmad(t *testing.T, shareDir string) *rdmad {
	t.Helper()
	return startRdmadAs(t, shareDir, (*rdmad).exporting)
}

// startRdmadAs builds rdmad and rdmactl and starts rdmad on free ports. It is
// stopped when the test has ended, and must then end in order.
func startRdmadAs(t testing.TB, shareDir string, config func(*rdmad) string) *rdmad {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "export"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := &rdmad{program: build(t, dir, "rdmad"), rdmactl: build(t, dir, "rdmactl"), dir: dir, shareDir: shareDir, config: config,
		control: keepAddress(t), rdma: keepAddress(t), tcp: keepAddress(t)}
	r.start(t)
	t.Cleanup(func() { r.stop(t) })
	guest.Witness(t, "rdmad", r.stacks)
	return r
}

// stacks ends rdmad and returns what it has logged since then: the stacks of its
// goroutines.
func (r *rdmad) stacks() string {
	before := len(r.process.Log())
	r.process.Signal(syscall.SIGQUIT)
	select {
	case <-r.process.Done():
	case <-time.After(witnessTime):
		r.process.Kill()
	}
	return r.process.Log()[before:]
}

// build compiles one of the project's programs.
func build(t testing.TB, dir, name string) string {
	t.Helper()
	defer guest.Busy()()
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", path, "../cmd/"+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return path
}

// start starts rdmad and waits until it is ready.
func (r *rdmad) start(t testing.TB) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "rdmad.yaml"), []byte(r.config(r)), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(r.program, "--config", "rdmad.yaml")
	cmd.Dir = r.dir
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	process, err := child.StartDaemon(ctx, cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.process = process
	r.control, r.rdma, r.tcp = r.process.Address("control plane"), r.process.Address("listener"), r.process.Address("service")
}

// exporting is a configuration with an NFS service. The matrix makes tens of
// thousands of names: synced one by one they would take most of the run on a slow
// disk.
func (r *rdmad) exporting() string {
	return fmt.Sprintf(`control: {listen: %q}
metrics: {listen: ""}
state: {path: ./state}
listeners: [{name: nfs, provider: softiwarp, address: %q, service: export}]
services: [{name: export, nfs: {path: ./export, async_metadata: true, tcp_listen: %q}}]
`, r.control, r.rdma, r.tcp)
}

// killAndStart ends rdmad as by a crash, and starts it again on the same ports.
func (r *rdmad) killAndStart(t *testing.T) {
	r.process.Kill()
	r.start(t)
}

// stop stops rdmad and checks that it ends in order.
func (r *rdmad) stop(t testing.TB) {
	t.Helper()
	select {
	case <-r.process.Done():
		t.Errorf("rdmad has ended before: %v", r.process.Wait())
	default:
	}
	r.process.Signal(syscall.SIGTERM)
	select {
	case <-r.process.Done():
	case <-time.After(stopTime):
		t.Errorf("rdmad, told to stop, has not ended in %v:\n%s", stopTime, r.stacks())
	}
	if err := r.process.Wait(); err != nil {
		t.Errorf("rdmad, told to stop: %v", err)
	}
	if t.Failed() {
		t.Logf("rdmad's log:\n%s", r.process.Log())
	}
}

// mountArgs implements nfsServer. Both transports speak MOUNT over TCP.
func (r *rdmad) mountArgs(via transport) (source, options string) {
	port := portOf(r.tcp)
	if via == overRDMA {
		port = portOf(r.rdma)
	}
	return "10.0.2.2:/", fmt.Sprintf("vers=3,proto=%s,port=%s,mountport=%s,mountproto=tcp,nolock", via, port, portOf(r.tcp))
}

func (r *rdmad) shell(t testing.TB, script string) string {
	t.Helper()
	return runInDir(t, filepath.Join(r.dir, "export"), script)
}

func (r *rdmad) share() string { return r.shareDir }

func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		panic(err) // rdmad printed it
	}
	return port
}

// ctl runs rdmactl and decodes its JSON answer into v.
func (r *rdmad) ctl(t testing.TB, v any, args ...string) {
	t.Helper()
	args = append([]string{"--addr", r.control, "--timeout", "2m", "-o", "json"}, args...)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(context.Background(), r.rdmactl, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("rdmactl %s: %v\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	if err := json.Unmarshal(stdout.Bytes(), v); err != nil {
		t.Fatalf("rdmactl %s: %v in\n%s", strings.Join(args, " "), err, &stdout)
	}
}
