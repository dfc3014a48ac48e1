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

// state is the directory of what survives a restart. A lock on a file in it
// keeps a second rdmad out, and ends with the process however that ends.
type state struct {
	path string
	lock *os.File
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
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := lockHolder(f)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &inUseError{path, holder}
		}
		return nil, fmt.Errorf("state.path: lock %s: %w", path, err)
	}
	// The number is for the message above only.
	if f.Truncate(0) == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return &state{path: path, lock: f}, nil
}

// inUseError refuses a state directory that another process has locked.
type inUseError struct{ path, holder string }

func (e *inUseError) Error() string {
	return fmt.Sprintf("state.path: %s is in use by another rdmad%s", e.path, e.holder)
}

// lockHolder names the process that wrote a lock file, when it says so.
func lockHolder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	pid := strings.TrimSpace(string(b))
	if err != nil || pid == "" {
		return ""
	}
	return " (process " + pid + ")"
}

// service is the folder of one service's state.
func (s *state) service(name string) string {
	return filepath.Join(s.path, "services", name)
}

// listeners is the file of the services and listeners that operators added.
func (s *state) listeners() string { return filepath.Join(s.path, "listeners.json") }

// connectors is the file of the connectors that operators added.
func (s *state) connectors() string { return filepath.Join(s.path, "connectors.json") }

// settings is the file of the live settings and their history.
func (s *state) settings() string { return settingsFile(s.path) }

// settingsFile is its path in a state directory.
func settingsFile(path string) string { return filepath.Join(path, "settings.db") }

func (s *state) close() { s.lock.Close() }
