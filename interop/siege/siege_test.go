package siege

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shortPhase is the least time of a phase of the short form.
const shortPhase = 200 * time.Millisecond

// TestSiege is the short form: each attack that rdmad withstands, without a
// judgement about latencies.
func TestSiege(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("attacks that need root are left out")
	}
	bin := t.TempDir()
	for _, name := range []string{"rdmad", "siege"} {
		pkg := map[string]string{"rdmad": "../../cmd/rdmad", "siege": "../cmd/siege"}[name]
		if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, name), pkg).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	// The attacker that becomes another user runs its program, too.
	for dir := bin; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("attacks", func(t *testing.T) {
		for i := range Attacks {
			a := &Attacks[i]
			if a.NotYet != "" || a.Root && os.Getuid() != 0 {
				continue
			}
			t.Run(a.Name, func(t *testing.T) {
				t.Parallel()
				dir, err := os.MkdirTemp(bin, "run")
				if err == nil {
					err = os.Chmod(dir, 0o755)
				}
				if err != nil {
					t.Fatal(err)
				}
				out, err := Run(t.Context(), a, Options{
					Rdmad: filepath.Join(bin, "rdmad"), Attacker: []string{filepath.Join(bin, "siege"), "attack"},
					Dir: dir, Phase: shortPhase, Short: true, Progress: t.Logf,
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range out.Failures {
					t.Error(f)
				}
				t.Logf("attacker: %+v; RSS %d, %d, %d MiB", out.Tally, out.Before.RSS>>20, out.During.RSS>>20, out.After.RSS>>20)
			})
		}
	})
}
