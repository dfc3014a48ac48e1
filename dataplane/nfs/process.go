package nfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// process is what the service may do in the file system.
type process struct {
	// switcher lets threads act for callers. It is nil when the process is not root: then
	// all calls act as the user of the process.
	switcher  *posix.Switcher
	ownUID    uint32
	ownGID    uint32
	ownGroups []uint32
	umask     uint32
	maxFile   uint64
}

// newProcess finds out whether threads can act as other users.
func newProcess(opt options) (*process, error) {
	groups, err := unix.Getgroups()
	if err != nil {
		return nil, fmt.Errorf("nfs: groups of the process: %w", err)
	}
	p := &process{umask: readUmask(), ownUID: uint32(unix.Geteuid()), ownGID: uint32(unix.Getegid()), maxFile: maxFileSize()}
	for _, g := range groups {
		p.ownGroups = append(p.ownGroups, uint32(g))
	}
	if opt.noSwitch {
		return p, nil
	}
	if sw, ok := posix.NewSwitcher(p.ownGID, p.ownGroups); ok {
		p.switcher = sw
	}
	return p, nil
}

// readUmask reads the umask from /proc, because the system call cannot read it without
// changing it. Without an answer it returns 0.
func readUmask() uint32 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "Umask:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 8, 32)
			return uint32(n)
		}
	}
	return 0
}
