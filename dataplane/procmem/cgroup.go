package procmem

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Group is the memory limit of the process's control group.
type Group struct {
	Bytes int64  // 0 without a limit
	File  string // where Bytes was read
}

// String names the limit and its file.
func (g *Group) String() string { return g.what() + " in " + g.File }

func (g *Group) what() string {
	if path.Base(g.File) == "memory.high" {
		return "the control group's memory.high"
	}
	return "the control group's limit"
}

// unlimited is version 1's value for no limit, rounded to pages. No machine has
// that much memory.
const unlimited = 1 << 60

// ReadGroup reads the limits of the process's control group and of those above it, in
// version 2, version 1 and both at once. The smallest counts. In version 2 there are
// memory.max, over which the kernel ends the process, and memory.high, over which it
// slows the process down. Nothing is an error: a file that can't be read sets no
// limit. root is "/" except in tests.
func ReadGroup(root string) Group {
	var g Group
	lines, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return g
	}
	for line := range strings.Lines(string(lines)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[0] == "0" && f[1] == "":
			g.look(root, "sys/fs/cgroup", f[2], "memory.max", "memory.high")
			g.look(root, "sys/fs/cgroup/unified", f[2], "memory.max", "memory.high")
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			g.look(root, "sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes")
			g.look(root, "sys/fs/cgroup/"+f[1], f[2], "memory.limit_in_bytes")
		}
	}
	return g
}

// look reads files of a group and of all groups above it. In a container the path
// may be the one outside the container; then only the mount's root exists.
func (g *Group) look(root, mount, group string, files ...string) {
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		for _, f := range files {
			g.file(root, path.Join("/", mount, at, f))
		}
		if at == "/" {
			return
		}
	}
}

func (g *Group) file(root, name string) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 || n >= unlimited { // "max"
		return
	}
	if g.Bytes == 0 || n < g.Bytes {
		g.Bytes, g.File = max(n, 1), name
	}
}
