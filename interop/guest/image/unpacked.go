package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Unpacked returns a directory of the cache with the packages of a file as
// deps.sh writes it, unpacked for programs of the host, and unpacks them first when
// the cache lacks it. The error is a [*MissingError] when packages are missing.
// kind is the word for which deps.sh prints the file's name.
func Unpacked(ctx context.Context, script, kind string, log Log) (dir string, err error) {
	list, err := ask(ctx, script, kind)
	if err != nil {
		return "", err
	}
	set, err := readSet(list)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%q\n", recipeVersion, set.Debs)
	dir = filepath.Join(set.Cache, kind+"-"+hex.EncodeToString(h.Sum(nil))[:16])
	if exists(dir) {
		return dir, nil
	}
	unlock, err := lock(filepath.Join(set.Cache, "guest.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) { // another process unpacked them while this one waited
		return dir, nil
	}
	log("unpacking the packages of %s", kind)
	if err := unpackInto(ctx, dir, set); err != nil {
		return "", fmt.Errorf("image: unpacking %s: %w", kind, err)
	}
	return dir, nil
}

// unpackInto unpacks beside dir and renames the result to dir.
func unpackInto(ctx context.Context, dir string, set Set) (err error) {
	work, err := os.MkdirTemp(set.Cache, "build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	b := builder{set: set, sysroot: filepath.Join(work, "root")}
	if err := b.unpack(ctx); err != nil {
		return err
	}
	return os.Rename(b.sysroot, dir)
}
