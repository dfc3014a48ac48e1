package fh

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rdmad/rdmad/dataplane/durable"
)

// keyFile is the name of the secret in a state directory.
const keyFile = "nfs-handle.key"

// LoadKey reads the secret that seals handles from the directory dir. It
// creates dir (mode 0700) and the secret (mode 0600) if they are missing. A new
// secret is complete and on stable storage before another process can read it.
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

// makeKey puts a new secret at path, unless another process did so first.
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
	return durable.SyncDir(dir)
}

// SubKey derives the key of one of several exports.
func SubKey(key [KeySize]byte, export string) (sub [KeySize]byte) {
	m := hmac.New(sha256.New, key[:])
	m.Write([]byte("export " + export))
	m.Sum(sub[:0])
	return sub
}

// NewKey returns a random secret that is not stored.
func NewKey() (key [KeySize]byte) {
	rand.Read(key[:]) // never fails
	return key
}
