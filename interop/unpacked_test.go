package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/interop/guest/image"
)

// unpackedPrograms are the programs in unpacked packages. They run with the
// libraries and the loader that they were built for.
type unpackedPrograms struct{ root string }

// unpackedLibraries are the directories that the loader searches, relative to the
// root.
var unpackedLibraries = []string{"usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/ceph", "usr/lib/ganesha"}

// unpackPrograms unpacks the packages that deps.sh lists for kind, if necessary.
func unpackPrograms(ctx context.Context, kind string) (unpackedPrograms, error) {
	root, err := image.Unpacked(ctx, "deps.sh", kind, func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	})
	return unpackedPrograms{root}, err
}

// findCeph returns Ceph's programs. If packages are missing, the test is
// skipped; with CI=true in the environment it fails.
func findCeph(tb testing.TB) unpackedPrograms {
	tb.Helper()
	programs, err := unpackPrograms(tb.Context(), "ceph")
	var missing *image.MissingError
	switch {
	case errors.As(err, &missing) && os.Getenv("CI") != "true":
		tb.Skipf("left out: %s: %v", tb.Name(), missing)
	case err != nil:
		tb.Fatal(err)
	}
	return programs
}

// path returns the path of a file in the packages.
func (p unpackedPrograms) path(name string) string { return filepath.Join(p.root, name) }

// command returns the command that runs a program, by its path, with arguments.
func (p unpackedPrograms) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	var dirs bytes.Buffer
	for _, dir := range unpackedLibraries {
		dirs.WriteString(p.path(dir) + ":")
	}
	return exec.CommandContext(ctx, p.path("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
		append([]string{"--library-path", dirs.String(), program}, args...)...)
}

// run runs a program until it ends.
func (p unpackedPrograms) run(tb testing.TB, program string, args ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), cephTime)
	defer cancel()
	if out, err := p.command(ctx, program, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

// start starts a program. It is killed when the test ends.
func (p unpackedPrograms) start(tb testing.TB, name string, args ...string) *child.Process {
	tb.Helper()
	process, err := child.Start(p.command(context.Background(), p.path("usr/bin/"+name), args...))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(process.Kill)
	return process
}

// compile compiles a C program of testdata with a library of the packages and its headers.
// It returns the program's path, in dir.
func (p unpackedPrograms) compile(tb testing.TB, source, library, dir string) (path string) {
	tb.Helper()
	path = filepath.Join(dir, "client")
	cmd := exec.CommandContext(tb.Context(), "gcc", "-O2", "-Wall", "-Werror", "-I", p.path("usr/include"), "-o", path,
		filepath.Join("testdata", source), p.path("usr/lib/x86_64-linux-gnu/"+library), "-Wl,--allow-shlib-undefined")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return path
}
