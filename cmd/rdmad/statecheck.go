package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// stateSpace is the least free space of a state directory, in bytes. It holds a file of the
// audit log, and the settings while they are replaced.
const stateSpace = 32 << 20

// fileSystem answers questions about the file system of a state directory.
type fileSystem struct {
	writable func(dir string) error
	free     func(dir string) (uint64, error)
}

// machine uses the file systems of this machine.
var machine = fileSystem{
	writable: func(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) },
	free: func(dir string) (uint64, error) {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		free, bounded := conditions.FreeSpace(&s)
		if !bounded {
			free = math.MaxUint64
		}
		return free, err
	},
}

// state checks the state directory if the configuration names it.
func (o *opening) state() {
	const key = "state.path"
	if o.c.Origins.Of(key) != (config.Origin{}) {
		o.note(key, machine.suits(o.c.State.Path))
	}
}

// suits returns why a directory can't hold the state or can't be made, and what to do.
func (f fileSystem) suits(path string) error {
	dir, err := nearest(path)
	if err != nil {
		return err
	}
	if err := f.writable(dir); err != nil {
		return fmt.Errorf("%s: %w; make %s, and let the user write there that rdmad runs as", dir, err, path)
	}
	free, err := f.free(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if free < stateSpace {
		return fmt.Errorf("the file system of %s has %s free, rdmad needs %s; make room, or name a directory on another one",
			dir, spec.Size(free>>20<<20), spec.Size(stateSpace))
	}
	return nil
}

// nearest returns the directory or, if it does not exist, its nearest existing parent.
func nearest(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			path = filepath.Dir(path)
		case err != nil:
			return "", err
		case !info.IsDir():
			return "", fmt.Errorf("%s is not a directory; move it away, or name another directory", path)
		default:
			return path, nil
		}
	}
}
