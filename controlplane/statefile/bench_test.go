package statefile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/controlplane/history"
)

// BenchmarkCommit commits revisions with a full history, and compares that with one
// sync of a block that is written over, on the same disk.
func BenchmarkCommit(b *testing.B) {
	path := filepath.Join(b.TempDir(), "settings.db")
	f := create(b, path)
	revision := uint32(1)
	next := func() *Record {
		r := &Record{Entry: entry(revision)}
		if revision > history.MaxEntries {
			r.Drop = []uint32{revision - history.MaxEntries}
		}
		revision++
		return r
	}
	slow := f.replace
	f.replace = func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) }
	for revision <= history.MaxEntries {
		commit(b, f, next())
	}
	f.replace = slow
	one, err := os.Create(filepath.Join(b.TempDir(), "one"))
	if err != nil {
		b.Fatal(err)
	}
	defer one.Close()
	data := make([]byte, block)
	var syncing time.Duration
	sync := func() {
		if _, err := one.WriteAt(data, 0); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(one.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	sync()
	for b.Loop() {
		commit(b, f, next())
		b.StopTimer()
		start := time.Now()
		sync()
		syncing += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(syncing), "ratio")
}
