package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest/image"
)

// hung is how many guests of Boot hung. After mostHung of them the next ones
// would hang, too, and use up the time of the whole run.
var hung atomic.Int32

const mostHung = 2

// agentPackage is the package of the guest's first process.
const agentPackage = "./interop/guest/agent"

// Boot boots a guest for a test and stops it when the test and its subtests
// have ended. If packages are missing, the test is skipped; with CI=true in the
// environment it fails. The message names the packages. If two guests of this
// process hung, Boot fails at once.
func Boot(tb testing.TB, o Options) *Guest {
	tb.Helper()
	if n := hung.Load(); n >= mostHung {
		tb.Fatalf("%d guests hung before this test; see the reports of their tests", n)
	}
	img, agent := prepare(tb, o.Kernel)
	g, err := Start(context.Background(), img, agent, tb.TempDir(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if oops := g.Oops(); oops != "" {
			tb.Errorf("the guest's kernel broke: %s", oops)
		}
		if report := g.Report(); report != "" {
			hung.Add(1)
			tb.Errorf("the guest hung: %s", report)
		}
		if tb.Failed() {
			tb.Logf("the guest's console:\n%s", g.Console())
		}
		if err := g.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return g
}

// prepare returns the image and the agent. It builds them if they are missing.
func prepare(tb testing.TB, kernel image.Kernel) (img image.Image, agent string) {
	tb.Helper()
	ctx := context.Background()
	img, err := Prepare(ctx, kernel, func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	})
	if missing, ok := errors.AsType[*image.MissingError](err); ok {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("%s: %v", tb.Name(), missing)
		}
		tb.Skipf("left out: %s: %v", tb.Name(), missing)
	}
	if err != nil {
		tb.Fatal(err)
	}
	agent, err = BuildAgent(ctx, tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	return img, agent
}

// Prepare returns the image with a kernel from the cache, or builds it. It logs
// its steps with log. The error is an [*image.MissingError] if packages are
// missing.
func Prepare(ctx context.Context, kernel image.Kernel, log image.Log) (image.Image, error) {
	root, err := moduleRoot()
	if err != nil {
		return image.Image{}, err
	}
	set, err := image.Find(ctx, filepath.Join(root, "interop", "deps.sh"), kernel)
	if err != nil {
		return image.Image{}, err
	}
	return image.Ensure(ctx, set, log)
}

// BuildAgent compiles the guest's first process into dir and returns its path.
func BuildAgent(ctx context.Context, dir string) (path string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "agent")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, agentPackage)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("guest: building the agent: %w\n%s", err, out)
	}
	return path, nil
}

// moduleRoot returns the directory of the go.mod above the working directory. A
// test's working directory is its package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("guest: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("guest: not inside a Go module")
		}
		dir = parent
	}
}

// MustRun runs a script and returns its standard output. The test fails at once
// if the script does not end within limit with exit code 0. If it does not end,
// the guest is given up.
func (g *Guest) MustRun(tb testing.TB, limit time.Duration, script string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result, err := g.Run(ctx, script)
	if err != nil || result.Code != 0 {
		tb.Fatalf("in the guest: exit code %d, error %v\nscript:\n%s\nstdout:\n%s\nstderr:\n%s",
			result.Code, err, script, result.Stdout, result.Stderr)
	}
	return result.Stdout
}
