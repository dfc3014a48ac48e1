package siege

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Attackers and clients wait most of the time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// TestSiege runs the short form: rdmad must withstand each attack. It does not
// judge latencies.
func TestSiege(t *testing.T) {
	root := os.Getuid() == 0
	bin := openDir(t)
	rdmad, siege := filepath.Join(bin, "rdmad"), filepath.Join(bin, "siege")
	build(t, rdmad, "../../cmd/rdmad")
	build(t, siege, "../cmd/siege")
	for i := range Attacks {
		a := &Attacks[i]
		t.Run(a.Name, func(t *testing.T) {
			if a.Root && !root {
				t.Skip("needs root: the attacker becomes another user")
			}
			t.Parallel()
			out, err := Run(t.Context(), a, Options{
				Rdmad: rdmad, Attacker: []string{siege, "attack"}, Dir: openDir(t), Phase: ShortPhase, Short: true, Progress: t.Logf,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range out.Failures {
				t.Error(f)
			}
			t.Logf("attacker: %+v; RSS before, during and after %d, %d, %d MiB", out.Tally, out.Before.RSS>>20, out.During.RSS>>20, out.After.RSS>>20)
		})
	}
}

// openDir makes a temporary directory that other users can enter. An attacker that
// runs as another user needs its program and a socket in such directories.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func build(t *testing.T, path, pkg string) {
	t.Helper()
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
