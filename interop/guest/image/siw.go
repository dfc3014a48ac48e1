package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// siwDir is siw's directory in the kernel's source.
const siwDir = "drivers/infiniband/sw/siw"

// buildSIW builds siw twice, out of tree, because Debian's kernel does not have
// it. The first build is unchanged. In the second mpa_crc_required is set. That
// constant (siw_main.c) is no module parameter. Only a second build gives a
// kernel that asks for CRC32C in its MPA request and rejects a peer without it.
func (b *builder) buildSIW(ctx context.Context) error {
	headers, err := b.relocateHeaders()
	if err != nil {
		return err
	}
	source, err := b.extractSIW(ctx)
	if err != nil {
		return err
	}
	plain := fmt.Sprintf(siwModule, b.set.Kernel)
	if err := b.makeModule(ctx, headers, source, filepath.Join(b.sysroot, plain)); err != nil {
		return err
	}
	if err := requireCRC(filepath.Join(source, "siw_main.c")); err != nil {
		return err
	}
	return b.makeModule(ctx, headers, source, filepath.Join(b.stage, SIWRequireCRC))
}

// relocateHeaders makes the headers usable at the place where they were
// unpacked: their Makefile includes another one by absolute path. It also
// removes the kernel image that newer headers contain for pahole.
func (b *builder) relocateHeaders() (dir string, err error) {
	dir = filepath.Join(b.sysroot, "usr/src/linux-headers-"+b.set.Kernel)
	makefile := filepath.Join(dir, "Makefile")
	text, err := os.ReadFile(makefile)
	if err != nil {
		return "", err
	}
	moved := strings.ReplaceAll(string(text), "include /usr/src/",
		"include "+filepath.Join(b.sysroot, "usr/src")+"/")
	if err := os.Remove(filepath.Join(dir, "vmlinux")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return dir, os.WriteFile(makefile, []byte(moved), 0o644)
}

// extractSIW extracts siw's directory from the kernel's source package.
func (b *builder) extractSIW(ctx context.Context) (dir string, err error) {
	deb, err := b.set.source()
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(deb, "_") // linux-source-6.1
	dir = filepath.Join(b.sysroot, "usr/src")
	err = pipeline(ctx,
		[]string{"dpkg-deb", "--fsys-tarfile", b.set.path(deb)},
		[]string{"tar", "-xO", "./usr/src/" + name + ".tar.xz"},
		[]string{"tar", "-xJ", "--no-same-owner", "-C", dir, name + "/" + siwDir})
	return filepath.Join(dir, name, siwDir), err
}

// makeModule builds the module and copies it to a path, without debug data. BTF
// would need pahole and the uncompressed kernel image.
func (b *builder) makeModule(ctx context.Context, headers, source, to string) error {
	err := run(ctx, "make", "-s", "-C", headers, "M="+source,
		"CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules")
	if err != nil {
		return err
	}
	module := filepath.Join(source, "siw.ko")
	if err := run(ctx, "strip", "--strip-debug", module); err != nil {
		return err
	}
	return copyFile(module, to, 0o644)
}

// requireCRC sets mpa_crc_required in siw's source.
func requireCRC(path string) error {
	const off, on = "const bool mpa_crc_required;", "const bool mpa_crc_required = true;"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.Count(string(text), off) != 1 {
		return fmt.Errorf("%s: %q not found once", path, off)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), off, on, 1)), 0o644)
}
