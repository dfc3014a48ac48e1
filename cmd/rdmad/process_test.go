package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/child"
)

// startTimeout bounds how long a rdmad may take to be ready. It only detects hangs.
const startTimeout = 30 * time.Second

// process is a rdmad that was started and has reported that it is ready.
type process struct {
	*child.Daemon
	cmd       *exec.Cmd
	notify    *net.UnixConn     // what a service manager listens on
	addresses map[string]string // control, metrics, tcp_SERVICE, NAME of a listener
	told      chan string       // what the service manager was told

	mu   sync.Mutex
	grew chan struct{} // closed with the next message of the log
}

// keepPort returns an address of this machine for programs that listen there now and then. Nobody else gets its
// port until the test ends.
func keepPort(t *testing.T) string {
	t.Helper()
	address, kept, err := child.KeepPort()
	must(t, err)
	t.Cleanup(func() { kept.Close() })
	return address
}

// startProcess runs rdmad in a directory and waits until it has reported to a service manager
// that it is ready.
func startProcess(program, dir string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), told: make(chan string, 64), grew: make(chan struct{})}
	// A name without a file: it ends with the socket.
	name := fmt.Sprintf("@rdmad-test-%d-%d", os.Getpid(), started.Add(1))
	var err error
	if p.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}); err != nil {
		return nil, err
	}
	go p.listen()
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+name)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if p.Daemon, err = child.StartDaemon(ctx, p.cmd, p.grow); err != nil {
		p.notify.Close()
		return nil, fmt.Errorf("rdmad %s: %w", strings.Join(args, " "), err)
	}
	p.addresses = map[string]string{}
	for what, address := range p.Addresses() {
		switch kind, name, _ := strings.Cut(what, " "); {
		case kind == "listener" && name != "":
			p.addresses[name] = address
		case kind == "service" && name != "":
			p.addresses["tcp_"+name] = address
		default: // "control plane", "metrics", "console"
			p.addresses[kind] = address
		}
	}
	select {
	case what := <-p.told:
		if what == "READY=1" {
			return p, nil
		}
		err = fmt.Errorf("service manager told %q, not READY=1", what)
	case <-p.Done():
		err = fmt.Errorf("ended with code %d", p.wait())
	case <-ctx.Done():
		err = fmt.Errorf("service manager not told in %v", startTimeout)
	}
	p.kill()
	return nil, fmt.Errorf("rdmad %s: %w; log:\n%s", strings.Join(args, " "), err, p.Log())
}

var started atomic.Int32

// listen does as a service manager does.
func (p *process) listen() {
	defer close(p.told)
	buf := make([]byte, 128)
	for {
		n, err := p.notify.Read(buf)
		if err != nil {
			return
		}
		p.told <- string(buf[:n])
	}
}

// grow wakes up who waits for messages of the log.
func (p *process) grow(string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.grew)
	p.grew = make(chan struct{})
}

// waitLog waits until the log has so many lines that match.
func (p *process) waitLog(pattern *regexp.Regexp, n int) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		grew := p.grew
		p.mu.Unlock()
		if len(pattern.FindAllString(p.Log(), -1)) >= n {
			return nil
		}
		select {
		case <-grew:
		case <-p.Done():
			return fmt.Errorf("ended without %d lines of %s; log:\n%s", n, pattern, p.Log())
		case <-deadline.C:
			return fmt.Errorf("no %d lines of %s in %v; log:\n%s", n, pattern, startTimeout, p.Log())
		}
	}
}

var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}

func (p *process) signal(name string) error {
	s, ok := signals[name]
	if !ok {
		return fmt.Errorf("unknown signal %s", name)
	}
	p.Signal(s)
	return nil
}

// wait waits for the end and returns the exit code, or -1 after a signal.
func (p *process) wait() int {
	_ = p.Wait() // the exit code says it
	p.notify.Close()
	return p.cmd.ProcessState.ExitCode()
}

// kill ends it if it still runs.
func (p *process) kill() {
	p.Kill()
	p.wait()
}
