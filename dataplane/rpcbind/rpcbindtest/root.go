package rpcbindtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest/image"
)

// Where Debian's packages have what is needed, in the order of trying.
var (
	rpcbindPaths = []string{"/sbin/rpcbind", "/usr/sbin/rpcbind"}
	rpcinfoPaths = []string{"/usr/sbin/rpcinfo", "/usr/bin/rpcinfo"}
)

// user that rpcbind runs as once it has started.
const (
	userName = "_rpc"
	userID   = 104 // in a root that we make
	nogroup  = 65534
)

// errMissing means that there is no rpcbind to test with.
var errMissing = errors.New("no rpcbind: install Debian's package rpcbind, or run interop/deps.sh, which downloads it")

// program returns the first of some paths that is in the root.
func program(root string, paths []string) (string, error) {
	for _, p := range paths {
		if _, err := os.Stat(filepath.Join(root, p)); err == nil {
			return p, nil
		}
	}
	return "", errMissing
}

// findRoot returns the root with an installed rpcbind, or unpacks one. The error says what is
// missing.
func findRoot(t *testing.T) (string, error) {
	t.Helper()
	_, rpcbind := program("/", rpcbindPaths)
	_, rpcinfo := program("/", rpcinfoPaths)
	if rpcbind == nil && rpcinfo == nil {
		return "/", nil
	}
	root, err := image.Unpacked(t.Context(), "../../interop/deps.sh", "rpcbind", t.Logf)
	if missing, ok := errors.AsType[*image.MissingError](err); ok {
		return "", fmt.Errorf("%w: %w", errMissing, missing)
	}
	if err == nil {
		err = complete(root)
	}
	if err != nil {
		t.Fatalf("unpacking rpcbind: %v", err)
	}
	return root, nil
}

// users is the file with the users of an unpacked root. It is in /run, which every process has
// for itself: others may be completing the same root.
const users = "/run/passwd"

// complete adds what no package has to an unpacked root.
func complete(root string) error {
	for _, dir := range []string{"run", "var", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"var/run": "/run", "etc/passwd": users} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// user gives rpcbind's user and group in the root.
func (h *Host) user() (uid, gid int, err error) {
	text, err := os.ReadFile(filepath.Join(h.root, "etc/passwd"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 3 && f[0] == userName {
			uid, errUID := strconv.Atoi(f[2])
			gid, errGID := strconv.Atoi(f[3])
			return uid, gid, errors.Join(errUID, errGID)
		}
	}
	return 0, 0, fmt.Errorf("there is no user %s", userName)
}
