package image

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// codeMissing is the exit code of deps.sh when packages are missing.
const codeMissing = 3

// Set is one choice of package versions, as deps.sh recorded it.
type Set struct {
	Kernel string   // kernel release, "6.1.0-9-amd64"
	Debs   []string // file names of packages in the pool
	Cache  string   // the directory of the pool and of the images
}

// MissingError says that packages are missing; its text names them.
type MissingError struct{ Line string }

func (e *MissingError) Error() string { return e.Line }

// Find asks deps.sh, the script at the given path, which packages the guest is
// made of. It installs nothing: what is missing is a [*MissingError].
func Find(ctx context.Context, script string) (Set, error) {
	cmd := exec.CommandContext(ctx, "sh", script, "check")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == codeMissing {
		return Set{}, &MissingError{Line: strings.TrimSpace(stderr.String())}
	}
	if err != nil {
		return Set{}, fmt.Errorf("image: %s check: %w: %s", script, err, stderr.String())
	}
	return readSet(strings.TrimSpace(string(out)))
}

func readSet(lock string) (Set, error) {
	f, err := os.Open(lock)
	if err != nil {
		return Set{}, fmt.Errorf("image: %w", err)
	}
	defer f.Close()
	set, err := parseSet(f)
	if err != nil {
		return Set{}, fmt.Errorf("image: %s: %w", lock, err)
	}
	set.Cache = filepath.Dir(lock)
	return set, nil
}

// parseSet reads lines "kernel RELEASE" and "deb FILE".
func parseSet(r io.Reader) (Set, error) {
	var set Set
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		kind, value, ok := strings.Cut(lines.Text(), " ")
		switch {
		case ok && kind == "kernel":
			set.Kernel = value
		case ok && kind == "deb" && !strings.Contains(value, "/"):
			set.Debs = append(set.Debs, value)
		default:
			return Set{}, fmt.Errorf("unknown line %q", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		return Set{}, err
	}
	if set.Kernel == "" || len(set.Debs) == 0 {
		return Set{}, errors.New("no kernel or no packages")
	}
	return set, nil
}

// path is where a package of the set lies.
func (s Set) path(deb string) string { return filepath.Join(s.Cache, "debs", deb) }

// source is the package with the kernel's source.
func (s Set) source() (string, error) {
	for _, deb := range s.Debs {
		if strings.HasPrefix(deb, "linux-source-") {
			return deb, nil
		}
	}
	return "", errors.New("image: the package set has no linux-source")
}
