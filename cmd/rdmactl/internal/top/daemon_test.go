package top_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdmad/rdmad/interop/child"
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

// startDaemon runs a rdmad in a directory with its control plane at an address, and waits until
// it is ready. It has two listeners, nfs and backup, whose calls an echo service answers. It is
// killed when ctx ends.
func startDaemon(ctx context.Context, program, dir, control string) (*child.Daemon, error) {
	file := filepath.Join(dir, "rdmad.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, control), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--config", file)
	cmd.Dir = dir
	return child.StartDaemon(ctx, cmd, nil)
}

// builtRdmad is rdmad, built in a directory of the test.
func builtRdmad(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "rdmad")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "github.com/rdmad/rdmad/cmd/rdmad")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}
