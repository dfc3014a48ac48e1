package procmem

import (
	"bytes"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/verbs/offheap"
)

const mib = 1 << 20

// machine makes a root directory with a machine's files.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[name]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadGroup(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		bytes int64
		file  string
	}{
		"no control groups": {nil, 0, ""},
		"systemd unit": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/rdmad.service\n",
			"sys/fs/cgroup/system.slice/rdmad.service/memory.max":  "1000\n",
			"sys/fs/cgroup/system.slice/rdmad.service/memory.high": "max\n",
		}, 1000, "/sys/fs/cgroup/system.slice/rdmad.service/memory.max"},
		"high is lower": {map[string]string{
			"proc/self/cgroup":              "0::/a\n",
			"sys/fs/cgroup/a/memory.max":    "1000\n",
			"sys/fs/cgroup/a/memory.high":   "900\n",
			"sys/fs/cgroup/a/b/memory.high": "1\n",
		}, 900, "/sys/fs/cgroup/a/memory.high"},
		"the slice has less": {map[string]string{
			"proc/self/cgroup":             "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max":   "500\n",
			"sys/fs/cgroup/a/b/memory.max": "1000\n",
		}, 500, "/sys/fs/cgroup/a/memory.max"},
		"container": {map[string]string{
			"proc/self/cgroup":         "0::/../../docker/x\n",
			"sys/fs/cgroup/memory.max": "700\n",
		}, 700, "/sys/fs/cgroup/memory.max"},
		"version 1": {map[string]string{
			"proc/self/cgroup": "11:cpu,cpuacct:/x\n9:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "800\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, 800, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes"},
		"hybrid": {map[string]string{
			"proc/self/cgroup": "9:memory:/x\n0::/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "800\n",
			"sys/fs/cgroup/unified/x/cgroup.procs":         "1\n",
		}, 800, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes"},
		"nothing allowed": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "0\n"}, 1, "/sys/fs/cgroup/memory.max"},
		"no limit":        {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0, ""},
		"garbage":         {map[string]string{"proc/self/cgroup": "0:\nx\n\n0::/\n", "sys/fs/cgroup/memory.max": "-7 x\n"}, 0, ""},
	} {
		if got := ReadGroup(machine(t, c.files)); got != (Group{c.bytes, c.file}) {
			t.Errorf("%s: %+v, want %d in %q", name, got, c.bytes, c.file)
		}
	}
}

// TestShares: whatever the limit, its parts add up to no more than the limit, or
// MinGo where it is small, and each part is large enough to work with.
func TestShares(t *testing.T) {
	for _, n := range []int64{16 * mib, 64 * mib, 256 * mib, 1 << 30, 1 << 40} {
		l := Limit{Bytes: n}
		for _, used := range []int64{0, l.mapped() / 2, l.mapped()} {
			if sum := used + l.goes(used); sum > max(n, l.mapped()+MinGo) || sum > needs(n)-16*mib {
				t.Errorf("limit %d: %d mapped and %d of the Go runtime", n, used, l.goes(used))
			}
		}
		if l.Registered()+2*l.TCP() != l.mapped() || l.Registered() < n/2 {
			t.Errorf("limit %d: %d registered, %d for TCP, %d mapped", n, l.Registered(), l.TCP(), l.mapped())
		}
	}
}

func TestGroupLowers(t *testing.T) {
	for _, c := range []struct{ asked, group, want int64 }{
		{1 << 30, 0, 1 << 30},
		{1 << 30, needs(1<<30) + 10, 1 << 30},
		{1 << 30, 614 * mib, 500 * mib},
		{1 << 30, 10 * mib, 16 * mib}, // never below least
		{20 * mib, 10 * mib, 16 * mib},
	} {
		l := within(c.asked, "limits.memory", Group{c.group, "/x/memory.max"}, 16*mib)
		if l.Bytes != c.want || l.Asked != c.asked || l.Lowered() != (c.want < c.asked) || (l.Warning() != "") != l.Lowered() ||
			(l.Source == "cgroup") != l.Lowered() {
			t.Errorf("%+v: %+v, %q", c, l, l.Warning())
		}
	}
	l := within(1<<30, "default", Group{614 * mib, "/sys/fs/cgroup/a/memory.high"}, 16*mib)
	const want = "limits.memory is 1024 MiB, but the control group's memory.high is 614 MiB (/sys/fs/cgroup/a/memory.high), " +
		"which leaves 500 MiB: set limits.memory to that or less, or raise it to 1190 MiB"
	if got := l.Warning(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestApply: the limit bounds mapped memory and the Go runtime. The Go runtime's
// limit follows the amount of mapped memory.
func TestApply(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	var log bytes.Buffer
	p := New(slog.New(slog.NewTextHandler(&log, nil)), 500*mib, 16*mib)
	p.goFixed = false
	p.root = machine(t, map[string]string{
		"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "644245094\n",
		"proc/self/status": "VmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n",
	})
	if got := p.Apply(256 * mib); got != 160*mib || p.Limit().Source != "operator" || log.Len() > 0 {
		t.Errorf("%d registered, %+v, %s", got, p.Limit(), log.String())
	}
	if got := debug.SetMemoryLimit(-1); got != 256*mib {
		t.Errorf("Go limit %d", got)
	}
	r, err := offheap.Alloc(100 * mib) // not written, so that no page of it is resident
	if err != nil {
		t.Fatal(err)
	}
	if u := p.Usage(); u.GoLimit != 156*mib || u.Mapped != 100*mib || u.Go < mib || u.Resident != mib || u.PeakResident != 2*mib || u.Other != 0 {
		t.Errorf("%+v", u)
	}
	if _, err := offheap.Alloc(93 * mib); err == nil {
		t.Error("more than 3/4 are mapped")
	}
	r.Free()
	if got := debug.SetMemoryLimit(-1); got != 256*mib {
		t.Errorf("Go limit %d after all is free", got)
	}
	p.Configured(2 << 30)
	p.Apply(2 << 30)
	p.Apply(2 << 30)
	if l := p.Limit(); l.Source != "cgroup" || l.Bytes >= 600*mib || strings.Count(log.String(), "level=WARN msg=\"less memory than limits.memory\"") != 1 {
		t.Errorf("%+v, %s", l, log.String())
	}
	p.Configured(100 * mib)
	if p.Apply(100 * mib); p.Limit().Source != "limits.memory" {
		t.Errorf("%+v", p.Limit())
	}
	p.Configured(0)
	if p.Apply(500 * mib); p.Limit().Source != "default" {
		t.Errorf("%+v", p.Limit())
	}
	p.Close()
	if n := debug.SetMemoryLimit(-1); n != before || offheap.Read().Limit != math.MaxInt64 {
		t.Errorf("Go limit %d, was %d before; %+v", n, before, offheap.Read())
	}
}

// TestEnvironmentWins: rdmad does not change a Go limit that GOMEMLIMIT sets.
func TestEnvironmentWins(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	defer offheap.SetLimit(math.MaxInt64)
	t.Setenv("GOMEMLIMIT", "777MiB")
	debug.SetMemoryLimit(777 * mib) // as the runtime does at its start
	p := New(slog.New(slog.DiscardHandler), 1<<30, 16*mib)
	p.Apply(256 * mib)
	if got := debug.SetMemoryLimit(-1); got != 777*mib {
		t.Errorf("Go limit %d", got)
	}
}
