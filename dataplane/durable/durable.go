// Package durable has names in directories survive a crash of the machine:
// what a file holds is on the disk with its Sync, the name that it was given
// with its directory's.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Rename gives a file another name in its directory, for good.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir brings a directory's names to the disk.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
