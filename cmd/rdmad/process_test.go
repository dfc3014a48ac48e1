package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// startTimeout bounds how long a rdmad may take to be ready. It only detects hangs.
const startTimeout = 30 * time.Second

// process is a rdmad that was started and has reported that it is ready.
type process struct {
	cmd       *exec.Cmd
	notify    *net.UnixConn     // what a service manager listens on
	addresses map[string]string // control, metrics, tcp_SERVICE, NAME of a listener
	read      chan struct{}     // closed when its log has ended
	known     chan struct{}     // closed when addresses are complete
	told      chan string       // what the service manager was told
	code      int
	waited    sync.Once

	mu    sync.Mutex
	grew  chan struct{} // closed with the next line
	lines strings.Builder
}

// startProcess runs rdmad in a directory and waits until it has reported to a service manager
// that it is ready.
func startProcess(program, dir string, args []string) (*process, error) {
	p := &process{
		cmd:       exec.Command(program, append([]string{"--log-format", "json"}, args...)...),
		addresses: map[string]string{},
		read:      make(chan struct{}),
		known:     make(chan struct{}),
		told:      make(chan string, 64),
		grew:      make(chan struct{}),
	}
	// A name without a file: it ends with the socket.
	name := fmt.Sprintf("@rdmad-test-%d-%d", os.Getpid(), started.Add(1))
	var err error
	if p.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}); err != nil {
		return nil, err
	}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+name)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.notify.Close()
		return nil, err
	}
	go p.listen()
	go p.collect(bufio.NewScanner(out))
	if err := p.ready(); err != nil {
		p.kill()
		return nil, fmt.Errorf("rdmad %s: %w; log:\n%s", strings.Join(args, " "), err, p.log())
	}
	return p, nil
}

var started atomic.Int32

// ready waits until both the log and the service manager know.
func (p *process) ready() error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	for known, told := p.known, p.told; known != nil || told != nil; {
		select {
		case what := <-told:
			if what != "READY=1" {
				return fmt.Errorf("service manager told %q, not READY=1", what)
			}
			told = nil
		case <-known:
			known = nil
		case <-p.read:
			return fmt.Errorf("ended with code %d", p.wait())
		case <-deadline.C:
			return fmt.Errorf("not ready in %v", startTimeout)
		}
	}
	return nil
}

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

// collect stores the log and the addresses in it.
func (p *process) collect(lines *bufio.Scanner) {
	defer close(p.read)
	for lines.Scan() {
		p.mu.Lock()
		p.lines.WriteString(lines.Text() + "\n")
		close(p.grew)
		p.grew = make(chan struct{})
		p.mu.Unlock()
		var l struct{ Msg, What, Listener, Service, Address string }
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue
		}
		switch {
		case l.Msg == "ready":
			close(p.known)
		case l.Msg != "listening":
		case l.What == "listener":
			p.addresses[l.Listener] = l.Address
		case l.What == "service":
			p.addresses["tcp_"+l.Service] = l.Address
		default:
			p.addresses[strings.ReplaceAll(l.What, " plane", "")] = l.Address
		}
	}
}

// log returns the log so far.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines.String()
}

// waitLog waits until the log has so many lines that match.
func (p *process) waitLog(pattern *regexp.Regexp, n int) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		found, grew := len(pattern.FindAllString(p.lines.String(), -1)), p.grew
		p.mu.Unlock()
		if found >= n {
			return nil
		}
		select {
		case <-grew:
		case <-p.read:
			return fmt.Errorf("ended without %d lines of %s; log:\n%s", n, pattern, p.log())
		case <-deadline.C:
			return fmt.Errorf("no %d lines of %s in %v; log:\n%s", n, pattern, startTimeout, p.log())
		}
	}
}

var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}

func (p *process) signal(name string) error {
	s, ok := signals[name]
	if !ok {
		return fmt.Errorf("unknown signal %s", name)
	}
	return p.cmd.Process.Signal(s)
}

// wait waits for the end and returns the exit code, or -1 after a signal.
func (p *process) wait() int {
	p.waited.Do(func() {
		<-p.read
		p.cmd.Wait()
		p.notify.Close()
		p.code = p.cmd.ProcessState.ExitCode()
	})
	return p.code
}

// kill ends it if it still runs.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.wait()
}
