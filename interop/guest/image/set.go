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

// Set is one choice of package versions, as recorded by deps.sh.
type Set struct {
	Kernel string   // kernel release, "6.1.0-9-amd64"; "" if there is none
	Debs   []string // file names of packages in the pool
	Cache  string   // directory of the pool and of the images
}

// MissingError means that packages are missing. Its text names them.
type MissingError struct{ Line string }

func (e *MissingError) Error() string { return e.Line }

// Kernel selects one of the kernels that a guest can have.
type Kernel uint8

// The kernels. If this machine's Debian already has a kernel as new as Newer,
// both are the same.
const (
	Stock Kernel = iota // of this machine's Debian: 6.1 of Debian 12
	Newer               // Linux 6.12: Debian 13's, and of Debian 12's backports
)

// words are the arguments of deps.sh for each kernel. deps.sh prints the file
// that lists its packages.
var words = [...]string{Stock: "check", Newer: "newer"}

var kernelNames = [...]string{Stock: "stock kernel", Newer: "newer kernel"}

func (k Kernel) String() string { return kernelNames[k] }

// Find asks deps.sh, at the path script, for the packages of a guest with a
// kernel. It installs nothing. The error is a [*MissingError] if packages are
// missing.
func Find(ctx context.Context, script string, kernel Kernel) (Set, error) {
	list, err := ask(ctx, script, words[kernel])
	if err != nil {
		return Set{}, err
	}
	set, err := readSet(list)
	if err == nil && set.Kernel == "" {
		err = fmt.Errorf("image: %s: no kernel", list)
	}
	return set, err
}

// ask runs deps.sh with one word and returns the file name that it prints.
func ask(ctx context.Context, script, word string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", script, word)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == codeMissing {
		return "", &MissingError{Line: strings.TrimSpace(stderr.String())}
	}
	if err != nil {
		return "", fmt.Errorf("image: %s %s: %w: %s", script, word, err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
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

// parseSet parses lines "kernel RELEASE" and "deb FILE".
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
	if len(set.Debs) == 0 {
		return Set{}, errors.New("no packages")
	}
	return set, nil
}

// path returns the path of a package in the pool.
func (s Set) path(deb string) string { return filepath.Join(s.Cache, "debs", deb) }

// source returns the package with the kernel's source.
func (s Set) source() (string, error) {
	for _, deb := range s.Debs {
		if strings.HasPrefix(deb, "linux-source-") {
			return deb, nil
		}
	}
	return "", errors.New("image: the package set has no linux-source")
}
