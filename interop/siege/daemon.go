package siege

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/interop/child"
)

// hung bounds every wait. Only a hang takes this long.
const hung = time.Minute

// daemon is an rdmad with the default configuration, except for the ports.
type daemon struct {
	process *child.Daemon
	target  Target
	memory  int64 // limits.memory, in bytes
}

// defaultMemory is the default of limits.memory, in bytes.
const defaultMemory = 1 << 30

// startDaemon starts rdmad in a directory and waits until it is ready.
func startDaemon(program, dir string, a *Attack, memory int64) (*daemon, error) {
	d := &daemon{memory: memory, target: Target{Export: filepath.Join(dir, "export"), Outside: filepath.Join(dir, "outside")}}
	if err := d.prepare(dir, a); err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", limited(a.Files)+`exec "$0" "$@"`, program, "--config", "rdmad.yaml")
	cmd.Dir = dir
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	var err error
	if d.process, err = child.StartDaemon(ctx, cmd, nil); err != nil {
		return nil, err
	}
	t := &d.target
	t.RDMA, t.TCP = d.process.Address("listener nfs"), d.process.Address("service export")
	t.Metrics, t.Deleted = d.process.Address("metrics"), d.process.Address("service deleted")
	if a.Control != Socket {
		t.Control = d.process.Address("control plane")
	}
	if a.Deleted {
		if err := os.RemoveAll(filepath.Join(dir, "deleted")); err != nil {
			d.process.Kill()
			return nil, err
		}
	}
	return d, nil
}

// limited returns a shell command that limits descriptors, or "".
func limited(files int) string {
	if files == 0 {
		return ""
	}
	return fmt.Sprintf("ulimit -n %d && ", files)
}

// prepare writes files, certificates and configuration.
func (d *daemon) prepare(dir string, a *Attack) error {
	control, err := d.control(dir, a.Control)
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`control: %s
metrics: {listen: "127.0.0.1:0"}
state: {path: ./state}
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: export}]
services:
  - {name: export, nfs: {path: ./export, tcp_listen: "127.0.0.1:0"}}
`, control)
	if a.Deleted {
		config += "  - {name: deleted, nfs: {path: ./deleted, tcp_listen: \"127.0.0.1:0\"}}\n"
	}
	var limits []string
	if a.Connections != 0 {
		limits = append(limits, fmt.Sprint("connections: ", a.Connections))
	}
	if d.memory != 0 {
		limits = append(limits, fmt.Sprint("memory: ", d.memory))
	} else {
		d.memory = defaultMemory
	}
	if limits != nil {
		config += "limits: {" + strings.Join(limits, ", ") + "}\n"
	}
	for _, path := range []string{d.target.Export, d.target.Outside, filepath.Join(dir, "deleted")} {
		err = errors.Join(err, os.Mkdir(path, 0o755))
	}
	for name, data := range map[string][]byte{
		"rdmad.yaml": []byte(config), "export/" + largeFile: make([]byte, bulk), "export/" + readFile: nfstest.Data(0, bulk), "export/" + writtenFile: nil,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	return err
}

// control returns the control section of the configuration.
func (d *daemon) control(dir string, c Control) (string, error) {
	switch c {
	case TLS:
		d.target.Certificates = dir
		ca, err := authtest.NewCA(dir)
		for _, name := range []string{"server", admin, viewer} {
			if err == nil {
				err = ca.Issue(name, 48*time.Hour)
			}
		}
		return `{listen: "127.0.0.1:0", tls: {cert: server.pem, key: server.key, client_ca: ca.pem}, ` +
			`roles: [{role: admin, certificates: [` + admin + `]}, {role: viewer, certificates: [` + viewer + `]}]}`, err
	case Socket:
		d.target.Control = "unix://" + filepath.Join(dir, "control.sock")
		return fmt.Sprintf(`{listen: %q, default_role: viewer}`, d.target.Control), nil
	}
	return `{listen: "127.0.0.1:0"}`, nil
}

// stop stops rdmad. It returns an error if rdmad did not end in order.
func (d *daemon) stop() error {
	select {
	case <-d.process.Done():
		return fmt.Errorf("rdmad ended by itself: %w\n%s", d.process.Wait(), d.tail())
	default:
	}
	d.process.Signal(syscall.SIGTERM)
	select {
	case <-d.process.Done():
	case <-time.After(hung):
		d.process.Signal(syscall.SIGQUIT)
		_ = d.process.Wait()
		return fmt.Errorf("rdmad did not end in %v\n%s", hung, d.tail())
	}
	if err := d.process.Wait(); err != nil {
		return fmt.Errorf("rdmad, told to stop: %w\n%s", err, d.tail())
	}
	return nil
}

// proc returns the path of a file of the process in /proc.
func (d *daemon) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(d.process.Pid()), name)
}

// descriptors returns the number of open descriptors, or 0 if the process has
// ended.
func (d *daemon) descriptors() int { return descriptors.OpenIn(d.proc("")) }

// peakRSS returns the largest resident size since resetPeak, in bytes.
func (d *daemon) peakRSS() int64 {
	_, peak := procmem.Resident(d.proc(""))
	return peak
}

// resetPeak restarts the peak of the resident size (proc(5), clear_refs).
func (d *daemon) resetPeak() error { return os.WriteFile(d.proc("clear_refs"), []byte("5"), 0) }

// tail returns the end of the log.
func (d *daemon) tail() string {
	log := d.process.Log()
	return log[max(len(log)-16<<10, 0):]
}
