//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"runtime"
	"syscall"
	"testing"

	"github.com/rdmad/rdmad/verbs/verbstest"
)

// A thread that was another user for a moment can still use the device.
func TestThreadWithAnotherIdentity(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	for _, uid := range []uintptr{65534, 0} {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, uid, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	pair := verbstest.NewPair(t, p, p, verbstest.Options{Listen: *addressFlag + ":0"})
	defer pair.Close()
	pair.Exchange(1)
}
