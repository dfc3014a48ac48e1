package interop

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/interop/guest/image"
)

// cephPrograms are the programs in the unpacked packages. They run with the
// libraries and the loader that they were built for.
type cephPrograms struct{ root string }

// cephLibraries are the directories that the loader searches, relative to the
// root.
var cephLibraries = []string{"usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/ceph", "usr/lib/ganesha"}

// findCeph unpacks the packages if necessary. If they are missing, the test is
// skipped; with CI=true in the environment it fails.
func findCeph(tb testing.TB) cephPrograms {
	tb.Helper()
	root, err := image.Unpacked(tb.Context(), "deps.sh", "ceph", func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	})
	var missing *image.MissingError
	switch {
	case errors.As(err, &missing) && os.Getenv("CI") != "true":
		tb.Skipf("left out: %s: %v", tb.Name(), missing)
	case err != nil:
		tb.Fatal(err)
	}
	return cephPrograms{root}
}

// path returns the path of a file in the packages.
func (p cephPrograms) path(name string) string { return filepath.Join(p.root, name) }

// command returns the command that runs a program, by its path, with arguments.
func (p cephPrograms) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	var dirs bytes.Buffer
	for _, dir := range cephLibraries {
		dirs.WriteString(p.path(dir) + ":")
	}
	return exec.CommandContext(ctx, p.path("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
		append([]string{"--library-path", dirs.String(), program}, args...)...)
}

// run runs a program until it ends.
func (p cephPrograms) run(tb testing.TB, program string, args ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), cephTime)
	defer cancel()
	if out, err := p.command(ctx, program, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

// start starts a program. It is killed when the test ends.
func (p cephPrograms) start(tb testing.TB, name string, args ...string) *child.Process {
	tb.Helper()
	process, err := child.Start(p.command(context.Background(), p.path("usr/bin/"+name), args...))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(process.Kill)
	return process
}

//go:embed testdata/ceph.c
var cephCommand string

// buildCommand compiles the program that commands the monitor.
func (p cephPrograms) buildCommand(tb testing.TB, dir string) (path string) {
	tb.Helper()
	path = filepath.Join(dir, "command")
	source := path + ".c"
	if err := os.WriteFile(source, []byte(cephCommand), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), "gcc", "-Wall", "-Werror", "-o", path, source,
		p.path("usr/lib/x86_64-linux-gnu/librados.so.2"), "-Wl,--allow-shlib-undefined")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return path
}
