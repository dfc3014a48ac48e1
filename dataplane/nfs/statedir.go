package nfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// KeepOut returns an error if a state directory is inside an export, where clients could read
// the key of file handles. Both may be missing, and KeepOut makes neither: it looks where the
// state directory would be made. New checks the same again when it has made the directory.
func KeepOut(stateDir, export string) error {
	inside, err := wouldBeInside(stateDir, export)
	if err == nil && inside {
		err = withinError(stateDir)
	}
	return err
}

// withinError is the error for a state directory that is inside an export.
func withinError(stateDir string) error {
	return fmt.Errorf("state directory %s is within it: clients could read its key", stateDir)
}

func wouldBeInside(dir, export string) (bool, error) {
	var top posix.Place
	fd, err := openDir(export)
	if err != nil { // other checks report why; it may be made
		return pathBelow(dir, export)
	}
	err = posix.PlaceOf(fd, &top)
	unix.Close(fd)
	if err != nil {
		return false, err
	}
	if fd, err = openNearest(dir); err != nil {
		return false, err
	}
	defer unix.Close(fd)
	inside, err := below(fd, &top)
	if errors.Is(err, unix.EACCES) { // not root, and no right to go up: compare the paths
		return pathBelow(dir, export)
	}
	return inside, err
}

// openDir opens a directory as a place only.
func openDir(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fd, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// openNearest opens a directory or, if it can't be opened, its nearest parent that can. Other
// checks report why the directory can't be opened.
func openNearest(path string) (int, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return -1, err
	}
	for {
		fd, err := openDir(path)
		if err == nil || path == "/" {
			return fd, err
		}
		path = filepath.Dir(path)
	}
}

// pathBelow compares the names of directories only.
func pathBelow(dir, top string) (bool, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false, err
	}
	if top, err = filepath.Abs(top); err != nil {
		return false, err
	}
	return dir == top || strings.HasPrefix(dir, strings.TrimSuffix(top, "/")+"/"), nil
}
