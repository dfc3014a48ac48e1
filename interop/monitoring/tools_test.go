package monitoring

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rdmad/rdmad/interop/guest/image"
)

// Files under test.
const (
	rulesFile     = "../../configs/prometheus/rules.yaml"
	alertsFile    = "../../configs/prometheus/alerts.yaml"
	dashboardFile = "../../configs/grafana/rdmad.json"
)

// tool returns the path of a program of Debian's package prometheus. If the package is
// missing, the test is skipped; with CI=true in the environment it fails.
func tool(t *testing.T, name string) string {
	t.Helper()
	root, err := image.Unpacked(t.Context(), "../deps.sh", "prometheus", func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	})
	var missing *image.MissingError
	switch {
	case errors.As(err, &missing) && os.Getenv("CI") != "true":
		t.Skipf("left out: %s: %v", t.Name(), missing)
	case err != nil:
		t.Fatal(err)
	}
	return filepath.Join(root, "usr/bin", name)
}

// run runs a program and returns its output.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", filepath.Base(program), args, err, out)
	}
	return string(out)
}

// absolute returns a path that does not depend on the working directory.
func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
