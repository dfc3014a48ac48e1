package ceph

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

// programs are those of unpacked packages, with the libraries and the loader
// that they were built for.
type programs struct{ root string }

// libraryDirs are where the loader looks, relative to the root.
var libraryDirs = []string{"usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/ceph", "usr/lib/ganesha"}

// findPrograms unpacks the packages if that was not done before. Where they are
// missing the test is skipped, or fails if the environment has CI=true.
func findPrograms(tb testing.TB) programs {
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
	return programs{root}
}

// path is where a file of the packages is.
func (p programs) path(name string) string { return filepath.Join(p.root, name) }

// command is a program, by its path, with arguments.
func (p programs) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	var dirs bytes.Buffer
	for _, dir := range libraryDirs {
		dirs.WriteString(p.path(dir) + ":")
	}
	return exec.CommandContext(ctx, p.path("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
		append([]string{"--library-path", dirs.String(), program}, args...)...)
}

// run runs a program to its end.
func (p programs) run(tb testing.TB, program string, args ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTime)
	defer cancel()
	if out, err := p.command(ctx, program, args...).CombinedOutput(); err != nil {
		tb.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

// start starts a program that is killed when the test has ended.
func (p programs) start(tb testing.TB, name string, args ...string) *child.Process {
	tb.Helper()
	process, err := child.Start(p.command(context.Background(), p.path("usr/bin/"+name), args...))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(process.Kill)
	return process
}

//go:embed command/command.c
var commandSource string

// buildCommand compiles the program that commands the monitor.
func (p programs) buildCommand(tb testing.TB, dir string) (path string) {
	tb.Helper()
	path = filepath.Join(dir, "command")
	source := path + ".c"
	if err := os.WriteFile(source, []byte(commandSource), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), "gcc", "-Wall", "-Werror", "-o", path, source,
		p.path("usr/lib/x86_64-linux-gnu/librados.so.2"), "-Wl,--allow-shlib-undefined")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return path
}
