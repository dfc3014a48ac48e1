package monitoring

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/child"
)

// startTime bounds how long a program may take to be ready. It only detects hangs.
const startTime = time.Minute

// daemon is a rdmad that is ready.
type daemon struct {
	*child.Daemon
	dir string
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
	if err := os.WriteFile(filepath.Join(dir, "rdmad.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config", "rdmad.yaml")
	cmd.Dir = dir
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	d, err := child.StartDaemon(ctx, cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	return &daemon{d, dir}
}

// address returns an address from the log.
func (d *daemon) address(t *testing.T, what string) string {
	t.Helper()
	a := d.Address(what)
	if a == "" {
		t.Fatalf("the log has no address of %s:\n%s", what, d.Log())
	}
	return a
}
