package image

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// linker finds the libraries that programs of a root need. All names are
// relative to the root.
type linker struct {
	root string
	dirs []string // searched in order after a file's own DT_RUNPATH
}

// closure returns the named files, the targets of symbolic links, and all
// libraries and loaders that these files need, each once.
func (l *linker) closure(names []string) ([]string, error) {
	var all []string
	seen := map[string]bool{}
	todo := append([]string(nil), names...)
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		all = append(all, name)
		more, err := l.needs(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		todo = append(todo, more...)
	}
	return all, nil
}

// needs returns the direct needs of a file: the target of a link, or the loader
// and the libraries of an ELF file.
func (l *linker) needs(name string) ([]string, error) {
	path := filepath.Join(l.root, name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		if err != nil {
			return nil, err
		}
		return []string{l.resolve(name, target)}, nil
	}
	return l.libraries(path)
}

// resolve returns the name of a link's target. Merged directories get their
// name in /usr.
func (l *linker) resolve(name, target string) string {
	if !filepath.IsAbs(target) {
		target = filepath.Join("/", filepath.Dir(name), target)
	}
	return merged(strings.TrimPrefix(filepath.Clean(target), "/"))
}

// merged maps lib/x to usr/lib/x, and so on.
func merged(name string) string {
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(mergedDirs, first) {
		return "usr/" + name
	}
	return name
}

func (l *linker) libraries(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var needs []string
	if loader := interpreter(f); loader != "" {
		needs = append(needs, merged(strings.TrimPrefix(loader, "/")))
	}
	dirs := append(runPath(f), l.dirs...)
	imported, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, library := range imported {
		found, err := l.find(library, dirs)
		if err != nil {
			return nil, err
		}
		needs = append(needs, found)
	}
	return needs, nil
}

// find returns the name of a library in the first directory that has it.
func (l *linker) find(library string, dirs []string) (string, error) {
	for _, dir := range dirs {
		name := filepath.Join(dir, library)
		if _, err := os.Lstat(filepath.Join(l.root, name)); err == nil {
			return name, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("no package has the library %s", library)
}

// interpreter returns the loader that an ELF file names in PT_INTERP, or "".
func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err == nil {
				return strings.TrimRight(string(name), "\x00")
			}
		}
	}
	return ""
}

// runPath returns the library directories in an ELF file, relative to the root.
func runPath(f *elf.File) []string {
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		values, err := f.DynString(tag)
		if err != nil {
			continue // a static program has no dynamic section
		}
		for _, value := range values {
			for _, dir := range strings.Split(value, ":") {
				dirs = append(dirs, merged(strings.TrimPrefix(dir, "/")))
			}
		}
	}
	return dirs
}
