package fh

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keyFile is the name of the secret in a state directory.
const keyFile = "nfs-handle.key"

// LoadKey reads the secret that handles are sealed with from the directory
// dir, which it makes (mode 0700) if missing, as it makes the secret (mode
// 0600). The secret is whole and on the disk before anybody can read it.
func LoadKey(dir string) (key [KeySize]byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return key, fmt.Errorf("state directory: %w", err)
	}
	path := filepath.Join(dir, keyFile)
	key, err = readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := makeKey(dir, path); err != nil {
		return key, fmt.Errorf("file handle key: %w", err)
	}
	return readKey(path)
}

func readKey(path string) (key [KeySize]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return key, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return key, err
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o077 != 0 {
		return key, fmt.Errorf("%s: must be a file that only its owner may read, is %v", path, fi.Mode())
	}
	if n, _ := f.Read(key[:]); n != KeySize || fi.Size() != KeySize {
		return key, fmt.Errorf("%s: has %d bytes and not %d: remove it to make a new one, which makes clients mount again", path, fi.Size(), KeySize)
	}
	return key, nil
}

// makeKey puts a new secret at path, unless another process was faster.
func makeKey(dir, path string) error {
	tmp, err := os.CreateTemp(dir, keyFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	key := NewKey()
	if _, err := tmp.Write(key[:]); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// NewKey makes a secret that is kept nowhere.
func NewKey() (key [KeySize]byte) {
	rand.Read(key[:]) // never fails
	return key
}
