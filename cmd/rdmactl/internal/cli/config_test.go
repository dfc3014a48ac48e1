package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/contexts"
)

// TestContextsOfManyCommands: each of the commands that a script runs at once adds its context.
func TestContextsOfManyCommands(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rdmactl", "config.yaml")
	t.Setenv("RDMACTL_CONFIG", name)
	const commands = 50
	var all sync.WaitGroup
	for i := range commands {
		all.Go(func() {
			if code := Run(t.Context(), "test", []string{"config", "add", fmt.Sprintf("nas%d", i), "--addr", "nas:20050"}, io.Discard, io.Discard); code != 0 {
				t.Errorf("nas%d: exit code %d", i, code)
			}
		})
	}
	all.Wait()
	f, err := contexts.Load(name)
	if err != nil || len(f.Contexts) != commands {
		t.Errorf("%d contexts, %v", len(f.Contexts), err)
	}
}

// TestLockedContexts: another program that keeps the directory locked, as flock DIR rdmactl … does,
// can't have rdmactl wait for ever, nor for longer than a user wants.
func TestLockedContexts(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RDMACTL_CONFIG", filepath.Join(dir.Name(), "config.yaml"))
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for timeout, ctx := range map[string]context.Context{"1ms": t.Context(), "1h": interrupted} {
		var stderr strings.Builder
		code := Run(ctx, "test", []string{"config", "add", "nas", "--addr", "nas:20050", "--timeout", timeout}, io.Discard, &stderr)
		if want := "rdmactl: another program has locked " + dir.Name() + "\n"; code != 1 || stderr.String() != want {
			t.Errorf("exit code %d, %s", code, stderr.String())
		}
	}
}
