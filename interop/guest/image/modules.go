package image

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// stageModules copies the recipe's modules and all that they need, and writes
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
	index, err := os.Open(filepath.Join(from, "modules.dep"))
	if err != nil {
		return err
	}
	defer index.Close()
	deps, err := parseModuleDeps(index)
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

// moduleDeps is modules.dep: for a module's name its file, and for a file all
// files that must be loaded before it.
type moduleDeps struct {
	file  map[string]string
	needs map[string][]string
}

func parseModuleDeps(r io.Reader) (moduleDeps, error) {
	deps := moduleDeps{file: map[string]string{}, needs: map[string][]string{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		file, needs, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			return deps, fmt.Errorf("modules.dep: no colon in %q", lines.Text())
		}
		deps.file[moduleName(file)] = file
		deps.needs[file] = strings.Fields(needs)
	}
	return deps, lines.Err()
}

// moduleName is the name under which the kernel knows the module of a file:
// "kernel/net/9p/9pnet-virtio.ko.xz" is 9pnet_virtio.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// closure returns the files of the named modules and of those that they need.
// A name that is no module file is built into the kernel only if nothing of
// that name is in modules.dep, which the guest can't tell either: an error.
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
