package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStateDirectoryIsTried: check says what is wrong with a state directory that is
// there, or that rdmad would make, and makes nothing.
func TestStateDirectoryIsTried(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	roomy := func(string) (uint64, error) { return stateSpace, nil }
	allowed := func(string) error { return nil }
	for _, c := range []struct {
		path string
		f    fileSystem
		want string
	}{
		{dir, fileSystem{allowed, roomy}, ""},
		{filepath.Join(dir, "a", "b"), fileSystem{allowed, roomy}, ""},
		{dir, machine, ""},
		{"/proc", fileSystem{allowed, machine.free}, ""}, // it has no size
		{file, fileSystem{allowed, roomy}, file + " is not a directory; move it away, or name another directory"},
		{filepath.Join(file, "a"), fileSystem{allowed, roomy}, "not a directory"},
		{filepath.Join(dir, "a"), fileSystem{func(string) error { return os.ErrPermission }, roomy}, dir + ": permission denied; make " + dir + "/a, and let the user write there"},
		{dir, fileSystem{allowed, func(string) (uint64, error) { return stateSpace - 1, nil }}, "has 31MiB free, rdmad needs 32MiB; make room"},
		{dir, fileSystem{allowed, func(string) (uint64, error) { return 0, errors.New("stale") }}, "stale"},
	} {
		err := c.f.suits(c.path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.path, err, c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
