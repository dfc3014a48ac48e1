//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "runtime"

// home runs functions on a thread that was there before anything could change
// its identity. The kernel takes commands on the files of RDMA devices only from
// threads with the very credentials that opened them (ib_safe_file_access), and
// a thread that was another user for a moment, as those of NFS are, has others
// for good. All files are opened here, by whatever makes librdmacm look at its
// devices, and who is refused calls again here.
var home = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for f := range home {
			f()
		}
	}()
}

// atHome runs f on the thread home.
func atHome(f func()) {
	done := make(chan struct{})
	home <- func() {
		f()
		close(done)
	}
	<-done
}

// command calls f, and once more at home when the thread may give no commands.
// Nothing has happened then.
func command(f func() C.int) C.int {
	rc := f()
	if rc == C.EACCES {
		atHome(func() { rc = f() })
	}
	return rc
}
