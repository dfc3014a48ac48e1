package rpcbindtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
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
var errMissing = errors.New("no rpcbind: run interop/deps.sh, which downloads it, or install Debian's package rpcbind")

// program returns the first of some paths that is in the root.
func program(root string, paths []string) (string, error) {
	for _, p := range paths {
		if _, err := os.Stat(filepath.Join(root, p)); err == nil {
			return p, nil
		}
	}
	return "", errMissing
}

// findRoot returns the root with an installed rpcbind, or makes one.
func findRoot(t *testing.T) (string, error) {
	_, rpcbind := program("/", rpcbindPaths)
	_, rpcinfo := program("/", rpcinfoPaths)
	if rpcbind == nil && rpcinfo == nil {
		return "/", nil
	}
	pool, err := openPool()
	if err != nil {
		return "", err
	}
	root := t.TempDir()
	if err := makeRoot(t.Context(), root, pool); err != nil {
		t.Fatalf("unpacking rpcbind: %v", err)
	}
	return root, nil
}

// makeRoot unpacks rpcbind and what it needs.
func makeRoot(ctx context.Context, root string, p *pool) error {
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} { // merged as on Debian
		if err := os.MkdirAll(filepath.Join(root, "usr", dir), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"run", "var", "etc"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		return err
	}
	debs, err := p.closure(ctx, "rpcbind", "netbase")
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if err := unpack(ctx, deb, root); err != nil {
			return err
		}
	}
	users := fmt.Sprintf("root:x:0:0::/:\n%s:x:%d:%d::/run/rpcbind:\n", userName, userID, nogroup)
	return os.WriteFile(filepath.Join(root, "etc/passwd"), []byte(users), 0o644)
}

// unpack unpacks a package's files, but for those that only people read.
func unpack(ctx context.Context, deb, root string) error {
	read := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	write := exec.CommandContext(ctx, "tar", "-x", "-C", root, "--no-same-owner", "--keep-directory-symlink",
		"--exclude=./usr/share/doc", "--exclude=./usr/share/man", "--exclude=./usr/share/locale")
	var err error
	if write.Stdin, err = read.StdoutPipe(); err != nil {
		return err
	}
	if err := read.Start(); err != nil {
		return err
	}
	out, err := write.CombinedOutput()
	if err = errors.Join(err, read.Wait()); err != nil {
		return fmt.Errorf("%s: %w %s", filepath.Base(deb), err, out)
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
