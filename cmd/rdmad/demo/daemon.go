package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rdmad/rdmad/interop/child"
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
	*child.Daemon
	cmd     *exec.Cmd
	reloads chan string // messages about the configuration
}

// message forwards the messages about the configuration.
func (dm *daemon) message(msg string) {
	if strings.HasPrefix(msg, "configuration ") {
		select {
		case dm.reloads <- msg:
		default: // nobody waits
		}
	}
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
		d.say("%-14s %s", name, cmp.Or(d.daemon.Address(name), d.daemon.Address("listener "+name)))
	}
	return nil
}

// launch runs an rdmad in a folder, and waits until it is ready.
func (d *demo) launch(ctx context.Context, dir, configuration string) (*daemon, error) {
	if err := os.WriteFile(filepath.Join(dir, "rdmad.yaml"), []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	dm := &daemon{cmd: exec.CommandContext(ctx, filepath.Join(d.bin, "rdmad"), "--config", "rdmad.yaml"), reloads: make(chan string, 16)}
	dm.cmd.Dir = dir
	var err error
	if dm.Daemon, err = child.StartDaemon(ctx, dm.cmd, dm.message); err != nil {
		return nil, err
	}
	d.started = append(d.started, dm)
	return dm, nil
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
	dm.Signal(syscall.SIGTERM)
	select {
	case <-dm.Done():
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

// rdmactl runs a command of rdmactl against the daemon and shows the output.
func (d *demo) rdmactl(ctx context.Context, args ...string) error {
	d.say("$ rdmactl %s", strings.Join(args, " "))
	out, err := d.ask(ctx, args...)
	for line := range strings.Lines(string(out)) {
		d.say("  %s", strings.TrimRight(line, "\n"))
	}
	return err
}

// each shows the output of commands of rdmactl, one after the other.
func (d *demo) each(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if err := d.rdmactl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// answer runs rdmactl and reads its JSON into v.
func (d *demo) answer(ctx context.Context, v any, args ...string) error {
	out, err := d.ask(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, v)
}

// ask runs rdmactl and returns its output.
func (d *demo) ask(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "rdmactl"), args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "RDMACTL_ADDR="+d.daemon.Address("control plane"))
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("rdmactl %s: %s", strings.Join(args, " "), bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
