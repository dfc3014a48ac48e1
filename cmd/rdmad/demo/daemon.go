package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// configuration lets the system choose all ports, so that the demonstration
// uses no port of another program.
const configuration = `control: {listen: "127.0.0.1:0"}
metrics: {listen: "127.0.0.1:0"}
services:
  - {name: export, nfs: {path: ./export, tcp_listen: "127.0.0.1:0"}}
  - {name: test, echo: {}}
listeners:
  - {name: nfs,  provider: softiwarp, address: "127.0.0.1:0", service: export}
  - {name: echo, provider: softiwarp, address: "127.0.0.1:0", service: test}
`

// daemon is the rdmad of the demonstration.
type daemon struct {
	cmd       *exec.Cmd
	addresses map[string]string // control plane, metrics, and listeners by name
	reloads   chan string       // messages about the configuration
	ended     chan struct{}
}

// build makes the binaries if none were given.
func (d *demo) build(ctx context.Context) error {
	if d.bin != "" {
		var err error
		d.bin, err = filepath.Abs(d.bin)
		return err
	}
	d.title("Build rdmad and rdmactl")
	d.bin = filepath.Join(d.dir, "bin")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", d.bin+string(filepath.Separator),
		"github.com/rdmad/rdmad/cmd/rdmad", "github.com/rdmad/rdmad/cmd/rdmactl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// start runs rdmad and waits until it is ready.
func (d *demo) start(ctx context.Context) error {
	d.title("Start rdmad with an NFS and an echo service on soft-iWARP")
	if err := os.Mkdir(filepath.Join(d.dir, "export"), 0o755); err != nil {
		return err
	}
	for line := range strings.Lines(configuration) {
		d.say("  %s", strings.TrimSuffix(line, "\n"))
	}
	var err error
	if d.daemon, err = d.launch(ctx, d.dir, configuration); err != nil {
		return err
	}
	for _, name := range []string{"nfs", "echo", "control plane", "metrics"} {
		d.say("%-14s %s", name, d.daemon.addresses[name])
	}
	return nil
}

// launch runs an rdmad in a folder, and waits until it is ready.
func (d *demo) launch(ctx context.Context, dir, configuration string) (*daemon, error) {
	if err := os.WriteFile(filepath.Join(dir, "rdmad.yaml"), []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	dm := &daemon{
		cmd:       exec.CommandContext(ctx, filepath.Join(d.bin, "rdmad"), "--config", "rdmad.yaml", "--log-format", "json"),
		addresses: map[string]string{},
		reloads:   make(chan string, 16),
		ended:     make(chan struct{}),
	}
	dm.cmd.Dir = dir
	dm.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := dm.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := dm.cmd.Start(); err != nil {
		return nil, err
	}
	d.started = append(d.started, dm)
	ready := make(chan error, 1)
	go dm.follow(log, ready)
	select {
	case err := <-ready:
		return dm, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// follow reads rdmad's log to learn the addresses, and when rdmad is ready or why it failed.
func (dm *daemon) follow(log io.Reader, ready chan<- error) {
	defer close(dm.ended)
	lines := bufio.NewScanner(log)
	last := ""
	for lines.Scan() {
		last = lines.Text()
		var l struct{ Msg, What, Listener, Address string }
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		switch {
		case l.Msg == "ready":
			ready <- nil
		case strings.HasPrefix(l.Msg, "configuration "):
			select {
			case dm.reloads <- l.Msg:
			default: // nobody waits
			}
		case l.Msg == "listening" && l.What == "listener":
			dm.addresses[l.Listener] = l.Address
		case l.Msg == "listening" && l.What != "service":
			dm.addresses[l.What] = l.Address
		}
	}
	err := dm.cmd.Wait()
	select {
	case ready <- fmt.Errorf("rdmad did not start: %s (%w)", last, err):
	default:
	}
}

// stop ends each rdmad and checks that it ends in order.
func (d *demo) stop(ctx context.Context) error {
	d.title("Stop: SIGTERM lets calls in flight finish")
	for _, dm := range d.started {
		if err := d.finish(ctx, dm); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) finish(ctx context.Context, dm *daemon) error {
	if err := dm.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-dm.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	code := dm.cmd.ProcessState.ExitCode()
	d.say("rdmad ended with exit code %d", code)
	if code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// kill ends rdmad if it still runs.
func (dm *daemon) kill() {
	_ = dm.cmd.Process.Kill() // it may have ended
	<-dm.ended
}

// rdmactl runs a command of rdmactl against the daemon and shows the output.
func (d *demo) rdmactl(ctx context.Context, args ...string) error {
	d.say("$ rdmactl %s", strings.Join(args, " "))
	out, err := d.ask(ctx, args...)
	for line := range strings.Lines(string(out)) {
		d.say("  %s", strings.TrimRight(line, "\n"))
	}
	return err
}

// ask runs rdmactl and returns its output.
func (d *demo) ask(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "rdmactl"), args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "RDMACTL_ADDR="+d.daemon.addresses["control plane"])
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("rdmactl %s: %s", strings.Join(args, " "), bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
