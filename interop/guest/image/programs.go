package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// stagePrograms copies programs, plugins and plain files from the sysroot.
func (b *builder) stagePrograms(context.Context) error {
	names := append([]string(nil), b.recipe.programs...)
	for _, pattern := range b.recipe.plugins {
		found, err := b.glob(pattern)
		if err != nil {
			return err
		}
		names = append(names, found...)
	}
	files, err := (&linker{root: b.sysroot, dirs: b.recipe.libDirs}).closure(names)
	if err != nil {
		return err
	}
	for _, pattern := range b.recipe.files {
		found, err := b.glob(pattern)
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	for _, name := range files {
		if err := b.stageFile(name); err != nil {
			return err
		}
	}
	return nil
}

// glob returns the sysroot's files that match pattern, relative to the sysroot.
// It fails if there is none.
func (b *builder) glob(pattern string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(b.sysroot, pattern))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no package has %s", pattern)
	}
	for i := range found {
		found[i], err = filepath.Rel(b.sysroot, found[i])
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// stageFile copies one file or symbolic link.
func (b *builder) stageFile(name string) error {
	from, to := filepath.Join(b.sysroot, name), filepath.Join(b.stage, name)
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return copyFile(from, to, info.Mode().Perm())
	}
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Symlink(target, to)
}
