package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Image is what QEMU boots: the two files, and the kernel release in them.
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

// Ensure returns the image made from set, and builds it when the cache lacks
// it. Building takes about a minute of one core and 2 GB of disk meanwhile.
func Ensure(ctx context.Context, set Set, log Log) (Image, error) {
	dir := filepath.Join(set.Cache, "guest-"+standard.key(set))
	img := Image{
		Kernel:    filepath.Join(dir, kernelFile),
		Initramfs: filepath.Join(dir, initramfsFile),
		Release:   set.Kernel,
	}
	if exists(dir) {
		return img, nil
	}
	unlock, err := lock(filepath.Join(set.Cache, "guest.lock"))
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if exists(dir) { // another process built it while this one waited
		return img, nil
	}
	if err := buildInto(ctx, dir, set, log); err != nil {
		return Image{}, fmt.Errorf("image: building the guest: %w", err)
	}
	return img, nil
}

// buildInto builds in a directory beside dir and renames the result to dir.
func buildInto(ctx context.Context, dir string, set Set, log Log) (err error) {
	work, err := os.MkdirTemp(set.Cache, "build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	out := filepath.Join(work, "image")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	b := builder{set: set, recipe: standard, sysroot: filepath.Join(work, "sysroot"),
		stage: filepath.Join(work, "stage"), out: out, log: log}
	if err := b.build(ctx); err != nil {
		return err
	}
	return os.Rename(out, dir)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lock takes an exclusive lock on a file, waiting for other processes.
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
