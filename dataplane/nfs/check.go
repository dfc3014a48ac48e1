package nfs

import (
	"bufio"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ExportState describes the directory at the path of an export.
type ExportState uint8

// The states of an export.
const (
	ExportServed     ExportState = iota // the directory that is served
	ExportMissing                       // nothing
	ExportNotMounted                    // no mount point, though RequireMountpoint is set
	ExportReplaced                      // another directory or file system
	ExportUnusable                      // an error
)

// Check looks at the path of an export, by its number in the configuration. It gives up a file
// system that went away (see the package comment), and serves it again when it is back. Call
// it from time to time. A MNT does the same. It hangs while the file system hangs.
func (s *Server) Check(export int) (state ExportState, message string) {
	return s.exports[export].check()
}

func (e *exportPoint) check() (ExportState, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.srv.ctx.Err() != nil {
		return ExportUnusable, "the server is closed"
	}
	state, message := e.look()
	e.set(state, message)
	return state, message
}

// set records the state, and logs it when it changes. The caller holds mu.
func (e *exportPoint) set(state ExportState, message string) {
	if ExportState(e.state.Swap(uint32(state))) == state {
		return
	}
	if state == ExportServed {
		e.srv.log.Info("the export is served again", "path", e.Path)
		return
	}
	e.srv.log.Error("the export is not as it should be", "path", e.Path, "reason", message, "served", e.tree.Load() != nil)
}

// look finds out what is at the path and acts on it. The caller holds mu.
func (e *exportPoint) look() (ExportState, string) {
	if e.RequireMountpoint {
		if mounted, err := IsMountpoint(e.Path); err == nil && !mounted {
			e.giveUp()
			return ExportNotMounted, e.Path + " is not a mount point"
		}
	}
	here, err := locate(e.Path)
	switch {
	case isOneOf(err, fs.ErrNotExist, unix.ENOTDIR):
		e.giveUpDetached()
		return ExportMissing, e.Path + " is not there"
	case isOneOf(err, unix.ESTALE, unix.ENOTCONN, unix.ESHUTDOWN, unix.ECONNABORTED, unix.EHOSTDOWN): // its server or disk is gone
		e.giveUp()
		return ExportUnusable, err.Error()
	case err != nil:
		return ExportUnusable, err.Error()
	}
	unix.Close(here.fd)
	if tree := e.tree.Load(); tree != nil && tree.place == here.place && tree.mount == here.mount {
		return ExportServed, e.Path
	}
	switch err := e.open(); {
	case err == nil:
		return ExportServed, e.Path
	case isOneOf(err, errReplaced):
		e.giveUpDetached()
		return ExportReplaced, e.Path + ": " + err.Error()
	default:
		return ExportUnusable, err.Error()
	}
}

// giveUpDetached closes the subtree if its file system is not mounted any more. A directory
// that was only renamed stays in service.
func (e *exportPoint) giveUpDetached() {
	if tree := e.tree.Load(); tree != nil && tree.mount != 0 && !isMounted(tree.mount) {
		e.giveUp()
	}
}

// isMounted reports whether a mount is there, by its ID (proc_pid_mountinfo(5)).
func isMounted(mount int) bool {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return true
	}
	defer f.Close()
	id := strconv.Itoa(mount) + " "
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), id) {
			return true
		}
	}
	return lines.Err() != nil
}
