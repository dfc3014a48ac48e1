package image

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// stageModules copies the recipe's modules and their dependencies, and writes
// the indexes that modprobe reads.
func (b *builder) stageModules(ctx context.Context) error {
	from := filepath.Join(b.sysroot, "usr/lib/modules", b.set.Kernel)
	to := filepath.Join(b.stage, "usr/lib/modules", b.set.Kernel)
	if err := makeRoot(b.stage); err != nil {
		return err
	}
	if err := b.depmod(ctx, b.sysroot); err != nil {
		return err
	}
	deps, err := readModuleDeps(from)
	if err != nil {
		return err
	}
	files, err := deps.closure(b.recipe.modules)
	if err != nil {
		return err
	}
	files = append(files, "modules.order", "modules.builtin", "modules.builtin.modinfo")
	for _, file := range files {
		if err := copyFile(filepath.Join(from, file), filepath.Join(to, file), 0o644); err != nil {
			return err
		}
	}
	return b.depmod(ctx, b.stage)
}

// depmod writes the module indexes under a root.
func (b *builder) depmod(ctx context.Context, root string) error {
	return run(ctx, "depmod", "-b", root, b.set.Kernel)
}

// moduleDeps is the content of modules.dep: the file of each module name, and
// for each file the files that must be loaded before it. A module in
// modules.builtin has no file.
type moduleDeps struct {
	file    map[string]string
	needs   map[string][]string
	builtin map[string]bool
}

// readModuleDeps reads the indexes in a kernel's module directory.
func readModuleDeps(dir string) (moduleDeps, error) {
	loadable, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return moduleDeps{}, err
	}
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return moduleDeps{}, err
	}
	return parseModuleDeps(string(loadable), string(builtin))
}

func parseModuleDeps(loadable, builtin string) (moduleDeps, error) {
	deps := moduleDeps{file: map[string]string{}, needs: map[string][]string{}, builtin: map[string]bool{}}
	for line := range strings.Lines(loadable) {
		file, needs, ok := strings.Cut(line, ":")
		if !ok {
			return deps, fmt.Errorf("modules.dep: no colon in %q", line)
		}
		deps.file[moduleName(file)] = file
		deps.needs[file] = strings.Fields(needs)
	}
	for line := range strings.Lines(builtin) {
		deps.builtin[moduleName(strings.TrimSpace(line))] = true
	}
	return deps, nil
}

// moduleName returns the kernel's name for the module in a file:
// "kernel/net/9p/9pnet-virtio.ko.xz" is 9pnet_virtio.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// closure returns the files of the named modules and of their dependencies. A
// module that is built into the kernel needs no file.
func (d moduleDeps) closure(names []string) ([]string, error) {
	var files []string
	seen := map[string]bool{}
	add := func(file string) {
		if !seen[file] {
			seen[file] = true
			files = append(files, file)
		}
	}
	for _, name := range names {
		if d.builtin[name] {
			continue
		}
		file, ok := d.file[name]
		if !ok {
			return nil, fmt.Errorf("the kernel has no module %s", name)
		}
		add(file)
		for _, need := range d.needs[file] {
			add(need)
		}
	}
	return files, nil
}
