package descriptors

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestNothingIsGivenTwice: the parts make up the limit, and each use has one.
func TestNothingIsGivenTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Want{
			Connections: rapid.IntRange(1, 65536).Draw(t, "connections"),
			Control:     rapid.IntRange(1, 65536).Draw(t, "control"),
			Metrics:     rapid.IntRange(1, 65536).Draw(t, "metrics"),
		}
		b := Divide(rapid.IntRange(64, 1<<20).Draw(t, "limit"), w)
		if sum := b.Own + b.Control + b.Metrics + b.Files + b.TCP + b.RDMA; sum != b.Limit {
			t.Fatalf("%+v makes %d", b, sum)
		}
		if min(b.Own, b.Control, b.Metrics, b.Files, b.TCP, b.RDMA) < 1 {
			t.Fatalf("%+v leaves somebody without", b)
		}
		if b.Connections()*perRDMA > b.RDMA && b.RDMA > 1 || b.ControlClients()*perClient > b.Control && b.Control > 1 {
			t.Fatalf("%+v: more connections than descriptors", b)
		}
	})
}

func TestProblems(t *testing.T) {
	w := Want{Connections: 4096, Control: 256, Metrics: 64}
	b := Divide(65536, w)
	if got := b.Unreachable; len(got) != 0 {
		t.Errorf("of 65536 files: %q", got)
	}
	b = Divide(1024, w)
	got := b.Unreachable
	if len(got) != 2 || !strings.HasPrefix(got[0], "limits.connections: 4096 can't be reached, ") || !strings.Contains(got[0], "only 1024 files may be open") {
		t.Errorf("of 1024 files: %q", got)
	}
	if n, err := Limit(); err != nil || n < Open() || Open() < 3 {
		t.Errorf("%d of %d open, %v", Open(), n, err)
	}
}
