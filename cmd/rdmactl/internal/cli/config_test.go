package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"

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
