package etcdtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/interop/child"
)

// binary is the path of etcd's program. The go command builds it once and keeps it.
var binary = sync.OnceValues(func() (string, error) {
	top, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(strings.TrimSpace(string(top)))
	// One go command at a time: a program that another one writes can't be run (ETXTBSY).
	lock, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "tool", "-n", "-modfile=etcd.mod", "server")
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
})

// Member is one etcd of a cluster. Start and Kill alternate.
type Member struct {
	Name     string
	Endpoint string // for clients
	Peer     string // HOST:PORT, for other members
	args     []string
	env      []string
	output   output
	process  *child.Process // nil while it does not run
}

// Start runs the member, again after Kill. The member ends with this process.
func (m *Member) Start() error {
	path, err := binary()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, m.args...) //nolint:gosec,noctx // etcd, which ends with Kill
	cmd.Stdout, cmd.Stderr = &m.output, &m.output
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1"), m.env...)
	p, err := child.Start(cmd)
	if err == nil {
		m.process = p
	}
	return err
}

// Kill ends the member at once. Its data stay.
func (m *Member) Kill() {
	if m.process != nil {
		m.process.Kill()
		m.process = nil
	}
}

// Pause stops the member with SIGSTOP until Resume. Its connections stay up and silent.
func (m *Member) Pause() { m.signal(syscall.SIGSTOP) }

// Resume lets a paused member continue.
func (m *Member) Resume() { m.signal(syscall.SIGCONT) }

func (m *Member) signal(s syscall.Signal) {
	if m.process != nil {
		m.process.Signal(s)
	}
}

// Pid is the process id of the member, 0 if it does not run.
func (m *Member) Pid() int {
	if m.process == nil {
		return 0
	}
	return m.process.Pid()
}

// Output returns the last lines that the member has logged.
func (m *Member) Output() string { return m.output.String() }

// kept bounds an output, in bytes.
const kept = 8 << 10

// output keeps the end of what a process writes.
type output struct {
	mu   sync.Mutex
	text []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	if len(o.text) > 2*kept {
		o.text = append(o.text[:0], o.text[len(o.text)-kept:]...)
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text[max(0, len(o.text)-kept):])
}
