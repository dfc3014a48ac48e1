package procmem

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Group is what the process's control group allows.
type Group struct {
	Bytes int64  // 0 without a limit
	File  string // that says so
}

func (g *Group) what() string {
	if path.Base(g.File) == "memory.high" {
		return "the control group's memory.high"
	}
	return "the control group's limit"
}

// unlimited is what version 1 says without a limit, rounded to pages; whatever is
// over it is no limit of a machine.
const unlimited = 1 << 60

// ReadGroup reads the limits of the process's control group and of those above it,
// in version 2, version 1 and both at once. The smallest counts. Of version 2 that is
// memory.max, over which the kernel ends the process, or memory.high, over which it
// slows it down. Nothing is an error: what can't be read is no limit. root is "/",
// but in tests.
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
		case hasMemory(f[1]):
			g.look(root, "sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes")
			g.look(root, "sys/fs/cgroup/"+f[1], f[2], "memory.limit_in_bytes")
		}
	}
	return g
}

func hasMemory(controllers string) bool {
	for c := range strings.SplitSeq(controllers, ",") {
		if c == "memory" {
			return true
		}
	}
	return false
}

// look reads files of a group and of all above it. In a container the path may be
// that outside of it, of which only the mount's root is to be seen.
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
