package monitoring

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/child"
)

// startTime bounds how long a program may take to be ready. It only detects hangs.
const startTime = time.Minute

// daemon is a rdmad that is ready.
type daemon struct {
	dir   string
	ready chan struct{}

	mu        sync.Mutex
	text      bytes.Buffer
	line      []byte
	addresses map[string]string // metrics, "listener NAME", service or connector: the last one
}

// build compiles a program of the project.
func build(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	run(t, "go", "build", "-o", path, "../../cmd/"+name)
	return path
}

// start starts rdmad with a configuration file in dir. It ends with the test.
func start(t *testing.T, program, dir, config string) *daemon {
	t.Helper()
	d := &daemon{dir: dir, ready: make(chan struct{}), addresses: map[string]string{}}
	if err := os.WriteFile(filepath.Join(dir, "rdmad.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config", "rdmad.yaml", "--log-format", "json")
	cmd.Dir, cmd.Stderr = dir, d
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	select {
	case <-d.ready:
	case <-p.Done():
		t.Fatalf("rdmad did not start: %v\n%s", p.Wait(), d.log())
	case <-time.After(startTime):
		t.Fatalf("rdmad is not ready:\n%s", d.log())
	}
	return d
}

// Write implements io.Writer for rdmad's log.
func (d *daemon) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text.Write(p)
	d.line = append(d.line, p...)
	for {
		line, rest, found := bytes.Cut(d.line, []byte{'\n'})
		if !found {
			return len(p), nil
		}
		var l struct{ Msg, What, Listener, Address string }
		if json.Unmarshal(line, &l) == nil && l.Msg == "listening" {
			d.addresses[strings.TrimSpace(l.What+" "+l.Listener)] = l.Address
		}
		if l.Msg == "ready" {
			close(d.ready)
		}
		d.line = bytes.Clone(rest)
	}
}

func (d *daemon) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// address returns an address from the log.
func (d *daemon) address(t *testing.T, what string) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.addresses[what]
	if a == "" {
		t.Fatalf("the log has no address of %s:\n%s", what, d.text.String())
	}
	return a
}
