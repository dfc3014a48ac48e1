package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
)

// Unpacked returns a directory of the cache with unpacked packages for programs
// of the host. It unpacks them if the cache does not have them. kind is the
// argument of deps.sh, which prints the file that lists the packages. The error
// is a [*MissingError] if packages are missing.
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
	dir, err = cached(set, kind+"-"+hex.EncodeToString(h.Sum(nil))[:16], func(work string) (string, error) {
		log("unpacking the packages of %s", kind)
		b := builder{set: set, sysroot: filepath.Join(work, "root")}
		return b.sysroot, b.unpack(ctx)
	})
	if err != nil {
		return "", fmt.Errorf("image: unpacking %s: %w", kind, err)
	}
	return dir, nil
}
