package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Image is the files that QEMU boots, and their kernel release.
type Image struct {
	Kernel    string // path of the kernel
	Initramfs string // path of the initramfs, without the /init of the agent
	Release   string // kernel release
}

// Log receives one line for each long step of a build.
type Log func(format string, args ...any)

const (
	kernelFile    = "vmlinuz"
	initramfsFile = "initramfs.cpio"
)

// Ensure returns the image for set. It builds the image if the cache does not
// have it. Building takes about a minute of one core and 2 GB of temporary disk
// space.
func Ensure(ctx context.Context, set Set, log Log) (Image, error) {
	dir, err := cached(set, "guest-"+standard.key(set), func(work string) (string, error) {
		out := filepath.Join(work, "image")
		if err := os.Mkdir(out, 0o755); err != nil {
			return "", err
		}
		b := builder{set: set, recipe: standard, sysroot: filepath.Join(work, "sysroot"),
			stage: filepath.Join(work, "stage"), out: out, log: log}
		return out, b.build(ctx)
	})
	if err != nil {
		return Image{}, fmt.Errorf("image: building the guest: %w", err)
	}
	return Image{
		Kernel:    filepath.Join(dir, kernelFile),
		Initramfs: filepath.Join(dir, initramfsFile),
		Release:   set.Kernel,
	}, nil
}

// cached returns a directory of the cache. If the cache does not have it, build
// makes it within work and returns its path.
func cached(set Set, name string, build func(work string) (made string, err error)) (dir string, err error) {
	dir = filepath.Join(set.Cache, name)
	if exists(dir) {
		return dir, nil
	}
	unlock, err := lock(filepath.Join(set.Cache, "guest.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) { // another process made it while this one waited
		return dir, nil
	}
	work, err := os.MkdirTemp(set.Cache, "build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	made, err := build(work)
	if err != nil {
		return "", err
	}
	return dir, os.Rename(made, dir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lock takes an exclusive lock on a file. It waits for other processes.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("image: locking %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
