//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "runtime"

// cleanThreads run functions on threads whose credentials never change. The kernel
// accepts commands on the files of RDMA devices only from threads with the same credentials
// as the thread that opened them (ib_safe_file_access). A thread that was another user for
// a moment, like those of NFS, has different credentials ever after.
type cleanThreads chan func()

var (
	// home runs every call that makes librdmacm look at its devices, so it opens all files.
	// A command that is refused on another thread is repeated here.
	home = newCleanThreads(1)
	// dialing is the same for calls that may block: siw's rdma_connect makes its TCP
	// connection. It has several threads, so that a host that does not answer keeps no others
	// waiting.
	dialing = newCleanThreads(8)
)

func newCleanThreads(n int) cleanThreads {
	t := make(cleanThreads)
	for range n {
		go func() {
			runtime.LockOSThread()
			for f := range t {
				f()
			}
		}()
	}
	return t
}

func (t cleanThreads) run(f func()) {
	done := make(chan struct{})
	t <- func() {
		f()
		close(done)
	}
	<-done
}

// command calls f, and repeats it on t if the calling thread may not give commands. In that
// case the first call had no effect.
func (t cleanThreads) command(f func() C.int) C.int {
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
