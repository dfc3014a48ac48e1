package top_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// configuration lets the system choose all ports but the control plane's.
const configuration = `control: {listen: %q}
metrics: {listen: "127.0.0.1:0"}
services:
  - {name: test, echo: {}}
listeners:
  - {name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: test}
  - {name: backup, provider: softiwarp, address: "127.0.0.1:0", service: test}
`

// daemon is a rdmad with two listeners, nfs and backup, whose calls an echo
// service answers.
type daemon struct {
	// Control is the address of its control plane.
	Control string
	// Listeners are the addresses of its listeners by name.
	Listeners map[string]string

	cmd  *exec.Cmd
	over chan struct{}
}

// startDaemon runs a rdmad in a directory with its control plane at an address,
// and waits until it is ready. It is killed when ctx ends.
func startDaemon(ctx context.Context, program, dir, control string) (*daemon, error) {
	file := filepath.Join(dir, "rdmad.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, control), 0o600); err != nil {
		return nil, err
	}
	d := &daemon{
		Listeners: map[string]string{},
		cmd:       exec.CommandContext(ctx, program, "--config", file, "--log-format", "json"),
		over:      make(chan struct{}),
	}
	d.cmd.Dir = dir
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	go d.follow(log, ready)
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		d.Kill()
		return nil, err
	}
	return d, nil
}

// follow reads its log to the end: where it listens, that it is ready, or
// why not.
func (d *daemon) follow(log io.Reader, ready chan<- error) {
	defer close(d.over)
	last := ""
	for lines := bufio.NewScanner(log); lines.Scan(); {
		last = lines.Text()
		var l struct{ Msg, What, Listener, Address string }
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		switch {
		case l.Msg == "ready":
			ready <- nil
		case l.Msg == "listening" && l.What == "listener":
			d.Listeners[l.Listener] = l.Address
		case l.Msg == "listening" && l.What == "control plane":
			d.Control = l.Address
		}
	}
	err := d.cmd.Wait()
	select {
	case ready <- fmt.Errorf("rdmad did not start: %s (%w)", last, err):
	default:
	}
}

// Kill ends it, and loses what is in flight.
func (d *daemon) Kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.over
}

// builtRdmad is rdmad, built in a directory of the test.
func builtRdmad(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "rdmad")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/rdmad/rdmad/cmd/rdmad")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}
