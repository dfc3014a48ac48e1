//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "runtime"

// A cleanThread runs functions on a thread that was there before anything could
// change its identity. The kernel takes commands on the files of RDMA devices only
// from threads with the very credentials that opened them (ib_safe_file_access),
// and a thread that was another user for a moment, as those of NFS are, has others
// for good.
type cleanThread chan func()

var (
	// home opens all files, by whatever makes librdmacm look at its devices. Who
	// is refused calls again here.
	home = newCleanThread()
	// dialing is the same for calls that may block: siw's rdma_connect makes its
	// TCP connection.
	dialing = newCleanThread()
)

func newCleanThread() cleanThread {
	t := make(cleanThread)
	go func() {
		runtime.LockOSThread()
		for f := range t {
			f()
		}
	}()
	return t
}

func (t cleanThread) run(f func()) {
	done := make(chan struct{})
	t <- func() {
		f()
		close(done)
	}
	<-done
}

// command calls f, and once more here when the thread may give no commands.
// Nothing has happened then.
func (t cleanThread) command(f func() C.int) C.int {
	rc := f()
	if rc == C.EACCES {
		t.run(func() { rc = f() })
	}
	return rc
}

// atHome runs f on the thread home.
func atHome(f func()) { home.run(f) }

func command(f func() C.int) C.int { return home.command(f) }
