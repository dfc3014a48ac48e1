package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// state is the directory of the state that survives a restart. A lock on a file in it keeps
// out a second rdmad. The lock always ends with the process.
type state struct {
	path   string
	lock   *os.File
	locked os.FileInfo // lock's
}

// openState makes the directory if it is missing, and locks it.
func openState(path string) (*state, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("state.path: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state.path: %w", err)
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		holder := lockHolder(f)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &inUseError{path, holder}
		}
		return nil, fmt.Errorf("state.path: lock %s: %w", path, err)
	}
	// The process id is only for the error message above.
	if f.Truncate(0) == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	locked, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("state.path: %w", err)
	}
	return &state{path: path, lock: f, locked: locked}, nil
}

// inUseError means that another process has locked the state directory.
type inUseError struct{ path, holder string }

func (e *inUseError) Error() string {
	return fmt.Sprintf("state.path: %s is in use by another rdmad%s", e.path, e.holder)
}

// lockHolder returns a text about the process that wrote a lock file, or "".
func lockHolder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	pid := strings.TrimSpace(string(b))
	if err != nil || pid == "" {
		return ""
	}
	return " (process " + pid + ")"
}

// service returns the folder of a service's state.
func (s *state) service(name string) string {
	return filepath.Join(s.path, "services", name)
}

// listeners returns the file of the services, listeners and connectors that operators added.
func (s *state) listeners() string { return filepath.Join(s.path, "listeners.json") }

// connectors returns the file in which an earlier rdmad kept connectors.
func (s *state) connectors() string { return filepath.Join(s.path, "connectors.json") }

// settings returns the file of the live settings and their history.
func (s *state) settings() string { return settingsFile(s.path) }

// settingsFile returns the path of that file in a state directory.
func settingsFile(path string) string { return filepath.Join(path, "settings.db") }

func (s *state) close() { s.lock.Close() }
