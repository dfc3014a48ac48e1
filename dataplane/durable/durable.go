// Package durable renames files so that the new names survive a crash of the machine. A file's
// Sync writes its content to the disk, and a Sync of its directory writes its name.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Rename gives a file another name in its directory. The name is on the disk when Rename
// returns.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir writes a directory's names to the disk.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
