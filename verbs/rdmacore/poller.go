//go:build rdmacore && cgo

package rdmacore

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// longAgo, set as a deadline, ends a wait at once.
var longAgo = time.Unix(1, 0)

// descriptor is a file descriptor of rdma-core in the runtime's poller. It is a duplicate,
// so that each side closes its own. The original must be non-blocking.
type descriptor struct {
	file *os.File
	raw  syscall.RawConn
}

func newDescriptor(fd int, name string) (descriptor, error) {
	syscall.ForkLock.RLock()
	dup, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(dup)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return descriptor{}, fmt.Errorf("rdmacore: %s: %w", name, err)
	}
	f := os.NewFile(uintptr(dup), name)
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return descriptor{}, fmt.Errorf("rdmacore: %s: %w", name, err)
	}
	return descriptor{file: f, raw: raw}, nil
}

// wait calls take until it returns true, or until interrupt or close is called.
func (d *descriptor) wait(take func(uintptr) bool) error { return d.raw.Read(take) }

// interrupt ends waits until resume is called.
func (d *descriptor) interrupt() { _ = d.file.SetReadDeadline(longAgo) }
func (d *descriptor) resume()    { _ = d.file.SetReadDeadline(time.Time{}) }

func (d *descriptor) close() { _ = d.file.Close() }
