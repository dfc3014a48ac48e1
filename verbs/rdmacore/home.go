//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "runtime"

// A cleanThread runs functions on a thread whose credentials never change. The kernel
// accepts commands on the files of RDMA devices only from threads with the same credentials
// as the thread that opened them (ib_safe_file_access). A thread that was another user for
// a moment, like those of NFS, has different credentials ever after.
type cleanThread chan func()

var (
	// home runs every call that makes librdmacm look at its devices, so it opens all files.
	// A command that is refused on another thread is repeated here.
	home = newCleanThread()
	// dialing is the same for calls that may block: siw's rdma_connect makes its TCP
	// connection.
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

// command calls f, and repeats it on t if the calling thread may not give commands. In that
// case the first call had no effect.
func (t cleanThread) command(f func() C.int) C.int {
	rc := f()
	if rc == C.EACCES {
		t.run(func() { rc = f() })
	}
	return rc
}

// atHome runs f on the thread home.
func atHome(f func()) { home.run(f) }

// dial runs a call that may block.
var dial = dialing.command

func command(f func() C.int) C.int { return home.command(f) }
