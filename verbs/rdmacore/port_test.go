//go:build rdmacore && cgo

package rdmacore

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that can't open more files does not report a port's failure.
func TestPortTrouble(t *testing.T) {
	class, hears := t.TempDir(), func(string) bool { return false }
	state := func(text string) {
		t.Helper()
		dir := filepath.Join(class, "siw0", "ports", "1")
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "state"), []byte(text), 0o600))
	}
	expect := func(what, one, any string) {
		t.Helper()
		for _, c := range []struct {
			err  error
			want string
		}{{port{"siw0", 1}.trouble(class), one}, {anyPort(class, "", hears), any}, {anyPort(class, "siw0", hears), any}} {
			if got := c.err; got == nil && c.want != "" || got != nil && got.Error() != c.want {
				t.Errorf("%s: got %v, want %q", what, got, c.want)
			}
		}
	}
	expect("no device", "device siw0 is gone", errNoPort.Error())
	state("4: ACTIVE\n")
	expect("active", "", "")
	withoutFiles(t, func() { expect("active, without files", "", "") })
	state("1: DOWN\n")
	expect("down", "port 1 of siw0 is DOWN", errNoPort.Error())
	if err := anyPort(class, "siw1", hears); err == nil {
		t.Error("a port of another device counts")
	}
}

// withoutFiles calls f while the process may open no file.
func withoutFiles(t *testing.T, f func()) {
	t.Helper()
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &none))
	f()
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
}
