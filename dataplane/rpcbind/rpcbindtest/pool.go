package rpcbindtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pool are the packages that interop/deps.sh has downloaded, of one release of
// Debian.
type pool struct {
	files map[string]string // by package
}

// openPool finds the packages for this machine's release, which the newest of
// deps.sh's lists for it names.
func openPool() (*pool, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	lists, err := filepath.Glob(filepath.Join(cache, "packages-"+release()+"-*"))
	if err != nil {
		return nil, err
	}
	list := newest(lists)
	if list == "" {
		return nil, errMissing
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	p := &pool{files: map[string]string{}}
	for _, f := range fields(text) {
		if len(f) == 2 && f[0] == "deb" {
			name, _, _ := strings.Cut(f[1], "_")
			p.files[name] = filepath.Join(cache, "debs", f[1])
		}
	}
	if _, err := os.Stat(p.files["rpcbind"]); err != nil {
		return nil, errMissing
	}
	return p, nil
}

// cacheDir returns what deps.sh uses.
func cacheDir() (string, error) {
	if dir := os.Getenv("RDMAD_CACHE"); dir != "" {
		return filepath.Join(dir, "rdmad"), nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "rdmad"), err
}

// release returns the code name of this machine's Debian.
func release() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	return ""
}

// newest returns the file that was changed last; "" when there is none.
func newest(files []string) (name string) {
	var last os.FileInfo
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && (last == nil || info.ModTime().After(last.ModTime())) {
			name, last = f, info
		}
	}
	return name
}

// closure returns the files of packages and of all that they depend on, as far
// as it is in the pool: what is not, no program in the guest needs either.
func (p *pool) closure(ctx context.Context, names ...string) ([]string, error) {
	var all []string
	seen := map[string]bool{}
	for len(names) > 0 {
		name := names[0]
		names = names[1:]
		file := p.files[name]
		if seen[name] || file == "" {
			continue
		}
		seen[name] = true
		all = append(all, file)
		more, err := depends(ctx, file)
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	return all, nil
}

// depends names the packages that a package depends on, the first of
// alternatives.
func depends(ctx context.Context, deb string) ([]string, error) {
	var names []string
	for _, field := range []string{"Depends", "Pre-Depends"} {
		out, err := exec.CommandContext(ctx, "dpkg-deb", "--field", deb, field).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(deb), err)
		}
		for item := range strings.SplitSeq(string(out), ",") {
			if f := strings.Fields(item); len(f) > 0 {
				name, _, _ := strings.Cut(f[0], ":") // any architecture
				names = append(names, name)
			}
		}
	}
	return names, nil
}
