package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// builder makes one image. It unpacks packages into sysroot, collects the
// guest's files in stage, and writes kernel and initramfs to out.
type builder struct {
	set     Set
	recipe  recipe
	sysroot string
	stage   string
	out     string
	log     Log
}

func (b *builder) build(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"unpacking packages", b.unpack},
		{"building siw for kernel " + b.set.Kernel, b.buildSIW},
		{"choosing kernel modules", b.stageModules},
		{"copying programs and their libraries", b.stagePrograms},
		{"writing the initramfs", b.write},
	}
	for _, step := range steps {
		b.log("guest image: %s", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// mergedDirs are the directories of the root that are links into /usr.
var mergedDirs = []string{"bin", "sbin", "lib", "lib64"}

// makeRoot creates an empty root with Debian's merged /usr.
func makeRoot(root string) error {
	for _, dir := range mergedDirs {
		if err := os.MkdirAll(filepath.Join(root, "usr", dir), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	return nil
}

// unpack unpacks every package except the kernel's source.
func (b *builder) unpack(ctx context.Context) error {
	if err := makeRoot(b.sysroot); err != nil {
		return err
	}
	for _, deb := range b.set.Debs {
		if strings.HasPrefix(deb, "linux-source-") {
			continue
		}
		err := pipeline(ctx,
			[]string{"dpkg-deb", "--fsys-tarfile", b.set.path(deb)},
			[]string{"tar", "-x", "-C", b.sysroot, "--no-same-owner", "--keep-directory-symlink",
				"--exclude=./usr/share/doc", "--exclude=./usr/share/man", "--exclude=./usr/share/locale"})
		if err != nil {
			return fmt.Errorf("%s: %w", deb, err)
		}
	}
	return nil
}

// write writes the kernel and the initramfs.
func (b *builder) write(context.Context) error {
	kernel := filepath.Join(b.sysroot, "boot", "vmlinuz-"+b.set.Kernel)
	if err := copyFile(kernel, filepath.Join(b.out, kernelFile), 0o644); err != nil {
		return err
	}
	return writeInitramfs(filepath.Join(b.out, initramfsFile), b.stage)
}
