package procmem

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/verbs/offheap"
)

// Usage is the memory of the process, in bytes.
type Usage struct {
	Limit   Limit
	Mapped  int64 // outside the Go heap
	Go      int64 // memory that the Go runtime's limit counts
	GoLimit int64 // in force now
	Other   int64 // all other resident memory: program text, C libraries
	// Resident is the resident size (RSS), PeakResident its peak. Both are 0 where
	// the kernel doesn't report them.
	Resident, PeakResident int64
}

// Usage returns the current memory use.
func (p *Process) Usage() Usage {
	u := Usage{Limit: p.Limit(), Mapped: offheap.Read().Used, Go: goBytes(), GoLimit: debug.SetMemoryLimit(-1)}
	u.Resident, u.PeakResident = Resident(filepath.Join(p.root, "proc/self"))
	u.Other = max(u.Resident-u.Mapped-u.Go, 0)
	return u
}

// Allowed returns how much memory may be mapped and of the Go runtime now, in bytes. The Go
// runtime may have MinGo even if the limit leaves less.
func (u *Usage) Allowed() int64 {
	return max(u.Limit.Bytes, min(u.Mapped, u.Limit.mapped())+MinGo)
}

// goBytes returns the memory that the Go runtime's limit counts.
func goBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

// Resident returns the resident size and its peak, in bytes, of the process of which proc is the
// directory in /proc. Both are 0 if the process has ended.
func Resident(proc string) (now, peak int64) {
	text, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "VmRSS":
			now = kilobytes(value)
		case "VmHWM":
			peak = kilobytes(value)
		}
	}
	return now, peak
}

func kilobytes(value string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}
